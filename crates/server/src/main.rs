//! `sabakan`, the server.

fn main() -> std::process::ExitCode {
    sabakan::cli::main()
}
