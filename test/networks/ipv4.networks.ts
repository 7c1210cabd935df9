import { kubectl } from '../e2e/support/cluster.ts';
import { helm, release } from '../e2e/support/installation.ts';
import { check, remedy, startChecked } from './support/check.ts';
import { chooseUsers, chosenUser } from './support/chosen-users.ts';
import { openShiftDns, usualDns } from './support/cluster-dns.ts';
import {
  closedConnections,
  connections,
  gatewayConnections,
  openConnections,
  proxiedConnections,
} from './support/connections.ts';
import {
  chosenUserValues,
  closedValues,
  distributeAuthority,
  gatewayValues,
  install,
  namespace,
  proxiedValues,
  sandboxes,
} from './support/installation.ts';
import { enforcePolicies } from './support/policy-engine.ts';
import { describeWorld, itPermits, itRelays } from './support/world.ts';

describe('conversation-operator check --pre', () => {
  let end: () => Promise<void>;
  beforeAll(async () => {
    end = await startChecked();
  });
  afterAll(() => end());

  it('finds that policies are not in force, and that certificates are missing; both can be mended', async () => {
    const before = await check();
    expect(before.notTried).toEqual([]);
    expect([...before.findings].map(([name, { code }]) => [name, code])).toEqual([
      ['trust', 'ContainerConfigError'],
      ['network-policy', 'NetworkPolicyNotEnforced'],
    ]);
    const [endPolicies] = await Promise.all([
      enforcePolicies({ rangesMatchCluster: true }),
      remedy(before.findings.get('trust')?.remedy ?? ''),
    ]);
    try {
      expect(await check()).toEqual({ findings: new Map(), notTried: [] });
    } finally {
      await endPolicies();
    }
  });
});

describeWorld(
  'a cluster with IPv4 and the usual DNS, where the gateway serves the relay',
  { dns: usualDns, rangesMatchCluster: true, values: gatewayValues },
  gatewayConnections,
  (scene) => {
    it('prints the finding of a failed helm test, and leaves nothing of the test behind', async () => {
      await kubectl(`-n ${sandboxes} create quota none --hard pods=0`);
      await expect(
        helm(['test', release, '--namespace', namespace, '--filter', `name=${release}-check`]),
      ).rejects.toThrow(/ResourceQuotaTooSmall \(quota\)/);
      await kubectl(`-n ${sandboxes} delete quota none`);
      const kinds = 'pods,serviceaccounts,roles,rolebindings';
      for (const where of [namespace, sandboxes])
        expect(
          await kubectl(`-n ${where} get ${kinds} -l app.kubernetes.io/component=check -o name`),
        ).toBe('');
    });
    describe('without the internet, and with extraEgress and a relay of its own', () => {
      beforeAll(() => install({ networkPolicies: closedValues }));
      itPermits(closedConnections, scene);
      itRelays(scene);
    });
    // Every server that is refused above does listen.
    describe('without policies', () => {
      beforeAll(() => install({ networkPolicies: { enabled: false } }));
      itPermits(openConnections, scene);
    });
  },
);

// The proxy alone knows the host of the repository.
describeWorld(
  'a cluster where a proxy is the only way out',
  { dns: usualDns, rangesMatchCluster: true, prepare: distributeAuthority, values: proxiedValues },
  proxiedConnections,
);

describeWorld(
  'a cluster with the DNS of OpenShift, which chooses the user of each pod',
  { dns: openShiftDns, rangesMatchCluster: true, prepare: chooseUsers, values: chosenUserValues },
  connections,
  (scene) =>
    it.each([
      ['the home', '~'],
      ['the repository', '.'],
    ])('the user of a sandbox writes into %s', async (_name, folder) => {
      const sandbox = scene().starts[1]?.sandbox_id ?? '';
      const script = `echo "$(id -u):$(id -g)" >${folder}/written && cat ${folder}/written`;
      const shell = ['exec', sandbox, '--', '/bin/sh', '-c', script];
      expect(await kubectl(['--namespace', sandboxes, ...shell])).toBe(`${chosenUser}:0`);
    }),
);

describeWorld(
  'a cluster where ranges mean neither nodes nor pods, as with Cilium',
  { dns: usualDns, rangesMatchCluster: false },
  connections,
);
