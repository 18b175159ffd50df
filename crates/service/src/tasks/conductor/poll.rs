//! Asks for tasks that run by themselves, of controllers and of ramdisks. Asking needs no lock; the end of a task is recorded, and a
//! worker takes it from there.

use std::{collections::HashMap, sync::Arc};

use sabakan_domain::{
    provision::{
        engine,
        node::{Node, WaitOn},
        running::RamdiskTask,
    },
    words::Serial,
};
use sabakan_drivers::{DriverError, Finished, TaskId, TaskState};
use sabakan_store::repo::nodes;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Conductor, ramdisk};
use crate::{error_chain, limits};

/// Asks for every task in turn until told to stop.
pub(super) async fn run(conductor: Arc<Conductor>, stop: CancellationToken) {
    let mut asked: HashMap<Serial, Instant> = HashMap::new();
    let room = Arc::new(Semaphore::new(limits::POLLS_AT_ONCE));
    let asking = TaskTracker::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(conductor.options.task_poll / 2) => {}
        }
        let snapshot = conductor.on.view.latest_known();
        let waiting: Vec<Arc<Node>> =
            snapshot.nodes().with_work().filter(|node| task_of(node).is_some()).cloned().collect();
        asked.retain(|name, _| snapshot.nodes().find(name.as_str()).is_some_and(|node| task_of(node).is_some()));
        for node in waiting {
            let due = asked.get(&node.name).is_none_or(|at| at.elapsed() >= conductor.options.task_poll);
            if !due || !conductor.looks_after(&snapshot, &node.name) {
                continue;
            }
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { break };
            asked.insert(node.name.clone(), Instant::now());
            let conductor = Arc::clone(&conductor);
            asking.spawn(async move {
                ask(&conductor, &node.name).await;
                drop(permit);
            });
        }
    }
    asking.close();
    asking.wait().await;
}

/// The task a node waits for.
fn task_of(node: &Node) -> Option<&str> {
    match &node.wait()?.on {
        WaitOn::Task { id, ended: false } => Some(id),
        WaitOn::Task { .. } | WaitOn::Heartbeat { .. } | WaitOn::Inventory { .. } | WaitOn::Time(_) | WaitOn::Hold => {
            None
        }
    }
}

/// Asks for the task a node waits for, if it waits for one and nobody is asking already, and records its end.
pub(super) async fn ask(conductor: &Conductor, name: &Serial) {
    let Some(_question) = conductor.asking.begin(name) else { return };
    let snapshot = conductor.on.view.latest_known();
    let Some(node) = snapshot.nodes().find(name.as_str()).cloned() else { return };
    let Some(task) = task_of(&node) else { return };
    let machine = snapshot.find_machine(name.as_str()).cloned();
    let state = tokio::time::timeout(limits::BMC_CALL_MAX, state_of(conductor, &node, machine.as_deref(), task)).await;
    match state {
        Ok(Ok(TaskState::Running(_))) => {}
        // A worker reads the outcome again, with the lock in its hand.
        Ok(Ok(TaskState::Done(_) | TaskState::Failed(_))) => {
            let ended = |facts: &nodes::Facts| engine::task_ended(&facts.node, task);
            if let Err(error) = nodes::notice(&*conductor.on.store, &conductor.on.keys, name, ended).await {
                tracing::warn!(serial = %name, error = error_chain(&error), "the end of a task was not recorded");
            }
        }
        // The deadline of the state ends this if nothing else does.
        Ok(Err(error)) => tracing::debug!(serial = %name, error = %error, "a task cannot be asked for"),
        Err(_) => tracing::debug!(serial = %name, "no answer about a task in time"),
    }
}

/// How far the task a node waits for is.
pub(super) async fn state_of(
    conductor: &Conductor,
    node: &Node,
    machine: Option<&sabakan_domain::machine::Machine>,
    task: &str,
) -> Result<TaskState, DriverError> {
    let chosen = conductor.hardware.choose(node, machine).await;
    let chosen = chosen.map_err(|error| DriverError::settings("driver", error_chain(&error)))?;
    let Some(asked) = RamdiskTask::parse(task) else {
        return chosen.connect()?.task(&TaskId(task.to_owned())).await;
    };
    let (step, command) = match asked {
        RamdiskTask::Idle => {
            let postponed = ramdisk::postpones_power(conductor, node, machine, &chosen).await;
            return Ok(postponed.map_or_else(|| TaskState::Done(Finished::default()), TaskState::Running));
        }
        RamdiskTask::Turn { .. } => {
            let running = ramdisk::reach(conductor, node, machine, &chosen).await?.running().await?;
            return Ok(running.map_or_else(|| TaskState::Done(Finished::default()), TaskState::Running));
        }
        RamdiskTask::Step { step, command } => (step, command),
    };
    let ramdisk = ramdisk::reach(conductor, node, machine, &chosen).await?;
    // Unknown: it was started anew since, or never began. What was half done is not done.
    let unknown = || TaskState::Failed("the ramdisk was restarted and no longer knows the step".to_owned());
    Ok(ramdisk.status(&step, command.as_deref()).await?.unwrap_or_else(unknown))
}
