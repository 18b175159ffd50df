//! Steps this program runs itself, whatever the driver: what every operation begins and ends with.

use std::collections::BTreeMap;

use super::{
    hardware::Aspect,
    steps::{ArgSpec, Args, Flow, Interface, Place, Step, StepSpec},
};

const fn spec(interface: Interface, name: &'static str, text: &'static str) -> StepSpec {
    StepSpec {
        interface,
        name,
        place: Place::Engine,
        flows: &[],
        priority: 0,
        abortable: false,
        idempotent: true,
        disturbs: &[],
        args: &[],
        text,
    }
}

const EVERY_FLOW: &[Flow] = &[Flow::Clean, Flow::Deploy, Flow::Service];

/// Reads the power state, which proves address and credentials.
pub const VERIFY: StepSpec = spec(Interface::Power, "verify", "Read the power state: proves address and credentials.");
/// Reads the hardware and stores what it found.
pub const INSPECT: StepSpec = spec(Interface::Management, "inspect", "Read the hardware and store what was found.");
/// Boots the ramdisk, which reads the hardware and sends what it found.
pub const INSPECT_IN_BAND: StepSpec = spec(
    Interface::Management,
    "inspect_in_band",
    "Boot the ramdisk from the network and wait for what it finds in the machine.",
);
/// Remembers what the machine looks like.
pub const RECORD: StepSpec =
    spec(Interface::Management, "record_configuration", "Remember volumes, firmware settings and boot order.");
/// Puts back what a step tore down.
pub const RESTORE: StepSpec =
    spec(Interface::Management, "restore_configuration", "Put back what an earlier step tore down.");
/// Fails if the machine does not look as before.
pub const COMPARE: StepSpec =
    spec(Interface::Management, "compare_configuration", "Fail if the machine does not look as before.");
/// Boots the ramdisk and waits for its call.
pub const BOOT_RAMDISK: StepSpec =
    spec(Interface::Deploy, "boot_ramdisk", "Boot the ramdisk from the network and wait for its call.");
/// Ends the ramdisk.
pub const END_RAMDISK: StepSpec =
    spec(Interface::Deploy, "tear_down_agent", "Switch the ramdisk off and undo its boot settings.");
/// Lets the machine start its workload.
pub const BOOT_INSTANCE: StepSpec =
    spec(Interface::Deploy, "boot_instance", "Set the boot device of the workload and switch the machine on.");
/// Undoes the boot settings of a deployment.
pub const CLEAR_BOOT: StepSpec =
    spec(Interface::Management, "clear_boot", "Undo the boot settings that deploying made.");
/// Forgets the instance.
pub const CLEAR_INSTANCE: StepSpec = spec(Interface::Deploy, "clear_instance", "Forget what ran on the machine.");

/// The step that deploys. Nobody can replace it.
pub const DEPLOY: StepSpec = StepSpec {
    flows: &[Flow::Deploy],
    priority: 100,
    ..spec(
        Interface::Deploy,
        "deploy",
        "Boot the ramdisk that writes the image; without one, let the machine boot its system from the network.",
    )
};

/// Deletes the disk keys: nothing readable is left, whatever happens to the disks afterwards. First among the automated steps.
pub const ERASE_KEYS: StepSpec = StepSpec {
    flows: &[Flow::Clean],
    priority: 200,
    ..spec(
        Interface::Deploy,
        "erase_disk_keys",
        "Delete the machine's disk keys and make it retired, with a record of it.",
    )
};

/// Compares what the hardware is with what it is said to be.
pub const VERIFY_CONFIGURATION: StepSpec = StepSpec {
    flows: &[Flow::Clean],
    priority: 5,
    ..spec(Interface::Management, "verify_configuration", "Compare the hardware with the node's properties.")
};

/// Switches the machine on.
pub const POWER_ON: StepSpec =
    StepSpec { flows: EVERY_FLOW, ..spec(Interface::Power, "power_on", "Switch the machine on.") };
/// Switches the machine off.
pub const POWER_OFF: StepSpec =
    StepSpec { flows: EVERY_FLOW, ..spec(Interface::Power, "power_off", "Switch the machine off.") };
/// Restarts the machine. A second restart would interrupt what the first one began.
pub const REBOOT: StepSpec = StepSpec {
    flows: EVERY_FLOW,
    idempotent: false,
    ..spec(Interface::Power, "reboot", "Switch the machine off and on.")
};
/// Waits for a person.
pub const HOLD: StepSpec = StepSpec {
    flows: EVERY_FLOW,
    abortable: true,
    ..spec(Interface::Deploy, "hold", "Wait until somebody says `unhold`.")
};
/// Waits for a while.
pub const WAIT: StepSpec = StepSpec {
    flows: EVERY_FLOW,
    abortable: true,
    args: &[ArgSpec { name: "seconds", required: false, text: "at most 30; without it, until the ramdisk calls" }],
    ..spec(Interface::Deploy, "wait", "Wait for some seconds, or for the ramdisk's next call.")
};

/// All of them, for the reference page and for running a stored step.
pub const ALL: &[StepSpec] = &[
    VERIFY,
    INSPECT,
    INSPECT_IN_BAND,
    RECORD,
    ERASE_KEYS,
    BOOT_RAMDISK,
    RESTORE,
    END_RAMDISK,
    VERIFY_CONFIGURATION,
    COMPARE,
    DEPLOY,
    BOOT_INSTANCE,
    CLEAR_BOOT,
    CLEAR_INSTANCE,
    POWER_ON,
    POWER_OFF,
    REBOOT,
    HOLD,
    WAIT,
];

/// Those a caller may put into a list, or an automatic list takes by itself.
pub fn offered() -> impl Iterator<Item = StepSpec> {
    ALL.iter().copied().filter(|spec| !spec.flows.is_empty())
}

/// What puts an aspect back after a step tore it down.
pub fn rebuilds() -> BTreeMap<Aspect, StepSpec> {
    BTreeMap::from([(Aspect::Raid, RESTORE), (Aspect::Bios, RESTORE)])
}

/// A step without arguments.
pub fn step(spec: StepSpec) -> Step {
    spec.step(Args::new(), spec.priority)
}

/// Whether a step is this one.
pub fn is(step: &Step, spec: StepSpec) -> bool {
    step.place == Place::Engine && step.name == spec.name && step.interface == spec.interface
}
