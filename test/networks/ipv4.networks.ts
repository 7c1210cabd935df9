import { openShiftDns, usualDns } from './support/cluster-dns.ts';
import { closedConnections, connections, openConnections } from './support/connections.ts';
import { closedValues, install } from './support/installation.ts';
import { describeWorld, itPermits } from './support/world.ts';

describeWorld(
  'a cluster with IPv4 and the usual DNS',
  { dns: usualDns, rangesMatchCluster: true },
  connections,
  (scene) => {
    describe('without the internet, and with extraEgress', () => {
      beforeAll(() => install(closedValues));
      itPermits(closedConnections, scene);
    });
    // Every server that is refused above does listen.
    describe('without policies', () => {
      beforeAll(() => install({ enabled: false }));
      itPermits(openConnections, scene);
    });
  },
);

describeWorld(
  'a cluster whose DNS has the port and the labels of OpenShift',
  { dns: openShiftDns, rangesMatchCluster: true },
  connections,
);

describeWorld(
  'a cluster where ranges mean neither nodes nor pods, as with Cilium',
  { dns: usualDns, rangesMatchCluster: false },
  connections,
);
