// How many tests passed and failed, read from what the runners print.
// Each function takes a stage's whole output and its exit code.

/** `cargo test`: one "test result:" line for each test binary. */
export function cargoCounts(output) {
  const results = [...plain(output).matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed;/gm)];
  return { passed: sum(results, 1), failed: sum(results, 2) };
}

/** `node --test`: a summary at the end, "# pass 3" in TAP and "ℹ pass 3" in the spec reporter's form. */
export function nodeCounts(output) {
  const last = (word) => Number([...plain(output).matchAll(new RegExp(`^[#ℹ] ${word} (\\d+)$`, 'gm'))].at(-1)?.[1] ?? 0);
  return { passed: last('pass'), failed: last('fail') + last('cancelled') };
}

/** A stage that is one check: passed or not. */
export function exitCounts(_output, code) {
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

/** A runner that failed without a failed test, or that ran no test at all, counts as one failure. */
export function settle({ passed, failed }, code) {
  const unexplained = failed === 0 && (code !== 0 || passed === 0);
  return { passed, failed: unexplained ? 1 : failed };
}

function plain(text) {
  return text.replace(/\x1b\[[0-9;]*m/g, '').replaceAll('\r', '');
}

function sum(matches, group) {
  return matches.reduce((total, match) => total + Number(match[group]), 0);
}
