//! `sabakan`, the server.

/// Keeps least of what a peak needed (ADR 0016).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    sabakan::cli::main()
}
