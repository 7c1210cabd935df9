import { usualDns } from './support/cluster-dns.ts';
import { connections } from './support/connections.ts';
import { describeWorld } from './support/world.ts';

describeWorld(
  'a cluster with IPv4 and IPv6',
  { dns: usualDns, rangesMatchCluster: true },
  connections,
);
