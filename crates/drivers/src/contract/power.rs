//! Power really changes, and only when asked.

use sabakan_domain::provision::power::{PowerState, PowerTarget};

use super::{Subject, counting::Counting};
use crate::{Bmc, power};

/// Every target the controller offers leads where it says, by the controller's own account and by the witness's.
pub async fn power_changes(subject: &Subject<'_>) {
    let bmc = subject.bmc();
    for target in [PowerTarget::On, PowerTarget::Reboot, PowerTarget::Off, PowerTarget::Reboot] {
        reach(subject, &*bmc, target).await;
    }
    if subject.obeys_soft {
        for target in [PowerTarget::SoftReboot, PowerTarget::SoftOff] {
            reach(subject, &*bmc, target).await;
        }
    }
    reach(subject, &*bmc, PowerTarget::Off).await;
}

/// A machine that has the power asked for gets no command: switching on twice must not restart a controller's idea of it.
pub async fn what_is_there_already_is_not_commanded(subject: &Subject<'_>) {
    let bmc = subject.bmc();
    for target in [PowerTarget::On, PowerTarget::Off] {
        reach(subject, &*bmc, target).await;
        let counting = Counting::new(&*bmc);
        reach(subject, &counting, target).await;
        assert_eq!(counting.power_commands(), 0, "{target} was commanded although the machine was there already");
    }
}

async fn reach(subject: &Subject<'_>, bmc: &dyn Bmc, target: PowerTarget) {
    if !bmc.power_targets().contains(&target) {
        return;
    }
    let reached = power::change(bmc, target, subject.power_within).await;
    assert_eq!(reached, Ok(target.result()), "{target} was not confirmed within {:?}", subject.power_within);
    let read = bmc.power().await;
    assert_eq!(read, Ok(Some(target.result())), "the power state read after {target} was confirmed");
    witnessed(subject, target.result(), target).await;
}

async fn witnessed(subject: &Subject<'_>, expected: PowerState, target: PowerTarget) {
    let Some(witness) = subject.witness else { return };
    if let Some(seen) = witness.power().await {
        assert_eq!(seen, expected, "the driver confirmed {target}, the machine itself says otherwise");
    }
}
