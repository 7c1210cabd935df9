import { usualDns } from './support/cluster-dns.ts';
import { closedConnections, connections } from './support/connections.ts';
import { closedValues, install } from './support/installation.ts';
import { describeWorld, itPermits } from './support/world.ts';

describeWorld(
  'a cluster with IPv6 alone',
  { dns: usualDns, rangesMatchCluster: true },
  connections,
  (scene) => {
    describe('without the internet, and with extraEgress', () => {
      beforeAll(() => install({ networkPolicies: closedValues }));
      itPermits(closedConnections, scene);
    });
  },
);
