import { usualDns } from './support/cluster-dns.ts';
import { closedGatewayConnections, connections } from './support/connections.ts';
import { closedValues, gatewayValues, install } from './support/installation.ts';
import { describeWorld, itPermits, itRelays } from './support/world.ts';

describeWorld(
  'a cluster with IPv6 alone',
  { dns: usualDns, rangesMatchCluster: true },
  connections,
  (scene) => {
    describe('without the internet, and with extraEgress where the gateway serves the relay', () => {
      beforeAll(() => install({ ...gatewayValues, networkPolicies: closedValues }));
      itPermits(closedGatewayConnections, scene);
      itRelays(scene);
    });
  },
);
