//! Passes the commit of the build to the package, as the command has it: results name it.

#[path = "../../crates/cli/build.rs"]
mod build;

fn main() {
    build::main();
}
