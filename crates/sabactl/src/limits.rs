//! Every bound of the command line, named, with its reason.

/// Machines registered by one request, unless the caller says otherwise: few enough that a refusal is about something a
/// person can overlook. A server on an etcd with default limits takes about a hundred; its refusal says so.
pub const BATCH_MACHINES: u32 = 1000;

/// Most bytes of an input file. A million machines; more is a mistake, such as a device that never ends.
pub const FILE_BYTES_MAX: u64 = 512 << 20;
