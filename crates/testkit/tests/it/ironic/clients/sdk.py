"""The provisioning API through openstacksdk: what scripts of operators do. Takes the address of the API, asserts what it sees, and
prints one line of JSON that the test compares. Pauses between two polls are a tenth as long as the library makes them."""

import json
import sys
import time
import uuid

import openstack
from openstack import exceptions

TIMEOUT = 60

HASTE = 10


def connect(endpoint):
    return openstack.connect(load_yaml_config=False, load_envvars=False, auth_type="none",
                             baremetal_endpoint_override=endpoint, baremetal_default_microversion="1.115").baremetal


def refused(kind, call, *args, **kwargs):
    """The call must fail in this way and no other."""
    try:
        call(*args, **kwargs)
    except kind as refusal:
        return refusal.status_code
    raise AssertionError(f"{call.__name__} was not refused")


def nodes(api):
    """Nodes made in three states, listed, looked at and changed."""
    wanted = {"sdk-enroll": "enroll", "sdk-manageable": "manageable", "sdk-available": "available"}
    for name, state in wanted.items():
        # A node that is made available is made with an old version, which knows no classes.
        node = api.create_node(name=name, driver="fake-hardware", provision_state=state)
        assert node.provision_state == state, (name, node.provision_state)
        api.update_node(node, resource_class="sdk")
    assert {node.name: node.provision_state for node in api.nodes()} == wanted
    assert sorted(node.name for node in api.nodes(limit=1)) == sorted(wanted), "all pages are walked"
    assert all(node.driver == "fake-hardware" and node.properties == {} for node in api.nodes(details=True))
    assert all(node.driver is None for node in api.nodes(fields=["uuid", "name"]))
    assert [node.name for node in api.nodes(provision_state="available")] == ["sdk-available"]
    assert api.find_node("sdk-nobody") is None

    node = api.update_node("sdk-enroll", extra={"rack": 7}, description="first")
    node = api.patch_node(node, [{"op": "add", "path": "/extra/row", "value": 2}, {"op": "remove", "path": "/extra/rack"}])
    assert (node.extra, node.description) == ({"row": 2}, "first")
    by_fields = api.get_node("sdk-enroll", fields=["extra"])
    assert by_fields.extra == {"row": 2}
    statuses = {
        "bad_path": refused(exceptions.BadRequestException, api.patch_node, node, [{"op": "replace", "path": "/no", "value": 1}]),
        "twice": refused(exceptions.ConflictException, api.create_node, name="sdk-enroll", driver="fake-hardware"),
        "unknown": refused(exceptions.NotFoundException, api.get_node, "sdk-nobody"),
        "verb": refused(exceptions.BadRequestException, api.set_node_provision_state, "sdk-enroll", "provide"),
    }
    secret = api.create_node(name="sdk-secret", driver="fake-hardware", driver_info={"fake_password": "hunter2"})
    assert secret.driver_info["fake_password"] == "******", secret.driver_info
    api.delete_node(secret)
    return statuses


def life(api, name):
    """The whole life of a node, waiting for each state; every state it was in when a wait ended."""
    seen = []
    verbs = ["manage", "inspect", "provide", "active", "rebuild", "deleted", "manage", "provide"]
    for verb in verbs:
        node = api.set_node_provision_state(name, verb, wait=True, timeout=TIMEOUT)
        seen.append(node.provision_state)
    return seen


def parts(api, name):
    """Ports, traits, VIFs, power, boot device, maintenance and checks of one node."""
    node = api.get_node(name)
    port = api.create_port(node_uuid=node.id, address="52:54:00:aa:00:01", is_pxe_enabled=True)
    assert [found.id for found in api.ports(node=name)] == [port.id]
    port = api.update_port(port, extra={"slot": 1})
    assert api.get_port(port).extra == {"slot": 1}
    again = refused(exceptions.ConflictException, api.create_port, node_uuid=node.id, address="52:54:00:AA:00:01")

    api.set_node_traits(node, ["CUSTOM_FAST", "CUSTOM_GPU"])
    api.add_node_trait(node, "CUSTOM_SSD")
    api.remove_node_trait(node, "CUSTOM_GPU")
    assert sorted(api.get_node(node).traits) == ["CUSTOM_FAST", "CUSTOM_SSD"]

    vif = str(uuid.uuid4())
    api.attach_vif_to_node(node, vif)
    assert api.list_node_vifs(node) == [vif]
    assert api.detach_vif_from_node(node, vif, ignore_missing=False)
    assert api.list_node_vifs(node) == []

    powers = []
    for target in ("power on", "power off"):
        api.set_node_power_state(node, target, wait=True, timeout=TIMEOUT)
        powers.append(api.get_node(node).power_state)
    api.set_node_boot_device(node, "pxe", persistent=True)
    assert api.get_node_boot_device(node) == {"boot_device": "pxe", "persistent": True}
    api.set_node_maintenance(node, "moved")
    assert api.get_node(node).maintenance_reason == "moved"
    api.unset_node_maintenance(node)
    checks = api.validate_node(node, required=("boot", "deploy", "power", "management"))
    assert all(checks[name].result for name in ("boot", "deploy", "power", "management"))
    api.delete_port(port)
    return {"duplicate_port": again, "powers": powers}


def allocations(api, name):
    """An allocation that finds the node, one that finds none, and the end of both."""
    api.set_node_power_state(name, "power off", wait=True, timeout=TIMEOUT)
    found = api.create_allocation(name="sdk-found", resource_class="sdk", traits=["CUSTOM_FAST"])
    found = api.wait_for_allocation(found, timeout=TIMEOUT)
    assert (found.state, found.node_id) == ("active", api.get_node(name).id)
    assert api.get_node(name).allocation_id == found.id
    none = api.create_allocation(name="sdk-none", resource_class="no-such-class")
    try:
        api.wait_for_allocation(none, timeout=TIMEOUT)
        raise AssertionError("there is no such node")
    except exceptions.ResourceFailure:
        none = api.get_allocation(none)
    api.update_allocation(found, extra={"for": "test"})
    assert api.get_allocation("sdk-found").extra == {"for": "test"}
    states = {allocation.name: allocation.state for allocation in api.allocations()}
    for allocation in (found, none):
        api.delete_allocation(allocation)
    assert api.get_node(name).instance_id is None
    return states


def main(endpoint):
    pause = time.sleep
    time.sleep = lambda seconds: pause(seconds / HASTE)
    api = connect(endpoint)
    summary = {"refusals": nodes(api), "life": life(api, "sdk-enroll"), "parts": parts(api, "sdk-available"),
               "allocations": allocations(api, "sdk-available")}
    summary["drivers"] = sorted(driver.name for driver in api.drivers())
    summary["conductors"] = [conductor.hostname for conductor in api.conductors()]
    for node in list(api.nodes()):
        api.delete_node(node)
    summary["left"] = len(list(api.nodes()))
    print(json.dumps(summary))


if __name__ == "__main__":
    main(sys.argv[1])
