//! scratch
#![allow(clippy::print_stdout)]
use sakiyomi_linux::blocks::*;
use sakiyomi_linux::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let options = Options {
        method: a[2].parse().unwrap(),
        block: a[3].parse().unwrap(),
        access: if a[4] == "direct" { Access::Direct } else { Access::Buffered },
        memory: if a[5] == "huge" { Memory::Huge } else { Memory::Ordinary },
        register: a[6] == "reg",
        endless: true,
        pattern: if a.get(8).is_some() { Pattern::Random { seed: 1 } } else { Pattern::Sequential },
        ..Options::default()
    };
    let mut b = Blocks::open(a[1].as_ref(), &options).unwrap();
    let secs: f64 = a[7].parse().unwrap();
    let s = cpu::Meter::start().unwrap();
    let t = std::time::Instant::now();
    let mut n = 0u64;
    while t.elapsed().as_secs_f64() < secs {
        let x = b.next().unwrap().unwrap();
        n += x.len() as u64;
    }
    let u = s.stop().unwrap();
    let gb = n as f64 / 1e9;
    println!(
        "{:22} {:9} {:?} {:7.1} MB/s iops {:.0} user {:.4} sys {:.4} s/GB  kthreads {:.3}  busiest {:?} cores {:.2?}",
        a[2],
        a[3],
        b.grant(),
        gb * 1e3 / u.elapsed.as_secs_f64(),
        n as f64 / options.block as f64 / u.elapsed.as_secs_f64(),
        u.user.as_secs_f64() / gb,
        u.system.as_secs_f64() / gb,
        u.kernel_threads.as_secs_f64(),
        u.busiest_thread.map(|b| (b.name, b.wanted)),
        u.cores
    );
}
