//! Power with confirmation: a command is only done when the controller says so.

use std::time::Duration;

use sabakan_domain::provision::power::{PowerState, PowerTarget};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{Bmc, DriverError};

/// How often the power state is read while waiting for it.
pub const POLL: Duration = Duration::from_millis(500);

/// Brings a machine to a power state and waits until its controller confirms it, at most `limit`. A machine that is there already is
/// left alone, except for restarts. The state returned is what was read last.
pub async fn change(bmc: &dyn Bmc, target: PowerTarget, limit: Duration) -> Result<PowerState, DriverError> {
    let deadline = Instant::now() + limit;
    if !bmc.power_targets().contains(&target) {
        return Err(DriverError::Unsupported(format!("the power target {target:?}")));
    }
    let before = read(bmc, deadline).await?;
    match target {
        PowerTarget::On | PowerTarget::Off | PowerTarget::SoftOff if before == Some(target.result()) => {}
        // A machine that is off is restarted by switching it on.
        PowerTarget::Reboot | PowerTarget::SoftReboot if before == Some(PowerState::Off) => {
            reach(bmc, PowerTarget::On, deadline).await?;
        }
        // Off and on, so that both are confirmed: a controller's own restart cannot be told from one that did nothing.
        PowerTarget::Reboot => {
            reach(bmc, PowerTarget::Off, deadline).await?;
            reach(bmc, PowerTarget::On, deadline).await?;
        }
        PowerTarget::SoftReboot => {
            reach(bmc, PowerTarget::SoftOff, deadline).await?;
            reach(bmc, PowerTarget::On, deadline).await?;
        }
        PowerTarget::On | PowerTarget::Off | PowerTarget::SoftOff => reach(bmc, target, deadline).await?,
    }
    Ok(target.result())
}

/// Restarts a machine that must never be switched off: by the controller's own restart, and off at no time that we asked for. That it
/// happened cannot be confirmed, only that the machine has power afterwards.
pub async fn restart(bmc: &dyn Bmc, target: PowerTarget, limit: Duration) -> Result<PowerState, DriverError> {
    if !target.restarts() || !bmc.power_targets().contains(&target) {
        return Err(DriverError::Unsupported(format!("the power target {target:?} without switching off")));
    }
    reach(bmc, target, Instant::now() + limit).await?;
    Ok(PowerState::On)
}

async fn reach(bmc: &dyn Bmc, target: PowerTarget, deadline: Instant) -> Result<(), DriverError> {
    bounded(bmc.command_power(target), deadline, target).await?;
    let mut last = None;
    loop {
        if Instant::now() >= deadline {
            let seen = last.map_or("unknown", PowerState::as_str);
            let reason = format!("the power state is still {seen} after the command was accepted");
            return Err(DriverError::Failed { what: format!("reach {target}"), reason });
        }
        // One lost answer while waiting is not the end: the deadline is.
        match read(bmc, deadline).await {
            Ok(state) if state == Some(target.result()) => return Ok(()),
            Ok(state) => last = state,
            Err(error) if error.is_retryable() => tracing::debug!(%error, "power state not read, trying again"),
            Err(error) => return Err(error),
        }
        sleep(POLL.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}

async fn read(bmc: &dyn Bmc, deadline: Instant) -> Result<Option<PowerState>, DriverError> {
    match timeout_at(deadline, bmc.power()).await {
        Ok(read) => read,
        Err(_) => Err(DriverError::Unreachable("no answer about the power state in time".to_owned())),
    }
}

async fn bounded(call: crate::BmcFuture<'_, ()>, deadline: Instant, target: PowerTarget) -> Result<(), DriverError> {
    match timeout_at(deadline, call).await {
        Ok(answer) => answer,
        Err(_) => Err(DriverError::Unreachable(format!("no answer to the command {target} in time"))),
    }
}
