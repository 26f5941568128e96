//! Any bytes that a plugin sends or that a checkpoint stores of it: no message makes the agent panic, and what a device plugin
//! answers reads the same when it is encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plugins::GrpcDevicePluginConnector;
use plugins::device_plugin_v1beta1::{ContainerAllocateResponse, ListAndWatchResponse};
use plugins::dra_services::health::NodeWatchResourcesResponse;
use plugins::dra_services::v1::{NodePrepareResourcesResponse, NodeUnprepareResourcesResponse};
use plugins::pod_resources_v1::GetPodResourcesRequest;
use plugins::registration_v1::PluginInfo;
use ports::plugins::device_plugin::DevicePluginConnector as _;
use prost::Message;

fn round_trip<M: Message + Default + PartialEq>(content: &[u8]) {
    if let Ok(message) = M::decode(content) {
        assert!(M::decode(message.encode_to_vec().as_slice()).as_ref() == Ok(&message));
    }
}

fuzz_target!(|content: &[u8]| {
    round_trip::<ContainerAllocateResponse>(content);
    round_trip::<ListAndWatchResponse>(content);
    round_trip::<NodeWatchResourcesResponse>(content);
    round_trip::<NodePrepareResourcesResponse>(content);
    round_trip::<NodeUnprepareResourcesResponse>(content);
    round_trip::<PluginInfo>(content);
    round_trip::<GetPodResourcesRequest>(content);
    let options = GrpcDevicePluginConnector.decode(content);
    assert_eq!(options.is_some(), ContainerAllocateResponse::decode(content).is_ok());
});
