//! CPU time of this process and of the server, from Linux's /proc; zero elsewhere.

use std::fs;

/// The kernel counts in hundredths of a second.
const TICKS_PER_S: f64 = 100.0;

#[derive(Debug, Default)]
pub struct Cpu {
    pub generator_s: f64,
    /// The server with its children, those that have ended included.
    pub server_s: f64,
}

impl Cpu {
    pub fn so_far(server_pid: Option<u32>) -> Cpu {
        let own = Process::read("self");
        let server = server_pid.and_then(|pid| Process::read(&pid.to_string()));
        Cpu {
            generator_s: own.map_or(0.0, |process| process.own_s),
            server_s: server.map_or(0.0, |process| {
                process.own_s + process.ended_children_s + children_s(process.pid)
            }),
        }
    }

    pub fn since(&self, before: &Cpu) -> Cpu {
        Cpu {
            generator_s: self.generator_s - before.generator_s,
            server_s: self.server_s - before.server_s,
        }
    }
}

struct Process {
    pid: u32,
    parent: u32,
    own_s: f64,
    ended_children_s: f64,
}

impl Process {
    fn read(pid: &str) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let pid = stat.split(' ').next()?.parse().ok()?;
        // The program's name, in parentheses, may hold anything.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / TICKS_PER_S);
        Some(Process {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            own_s: seconds(11)? + seconds(12)?,
            ended_children_s: seconds(13)? + seconds(14)?,
        })
    }
}

/// Of the processes whose parent this is: servers of this benchmark have no grandchildren.
fn children_s(parent: u32) -> f64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0.0;
    };
    entries
        .flatten()
        .filter_map(|entry| Process::read(entry.file_name().to_str()?))
        .filter(|process| process.parent == parent)
        .map(|process| process.own_s)
        .sum()
}
