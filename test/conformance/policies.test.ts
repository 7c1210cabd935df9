import { randomBytes } from 'node:crypto';
import { RenderedChart } from '../support/rendered-chart.ts';
import { eventually } from '../support/eventually.ts';
import {
  judge,
  policyCases,
  policyFixtures,
  referringFixtures,
  tenantRoles,
  uidOfReferred,
  tenants,
} from '../support/policy-cases.ts';
import type { Body } from '../support/plane.ts';
import { isReal, useServer } from '../../packages/local-cluster/test/conformance/support/server.ts';

/* oxlint-disable
   @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-argument,
   @typescript-eslint/no-unsafe-assignment
   -- resources of every kind; a wrong guess fails the test */

// The embedded control plane has one user, and no admission policies.
const ofRealServers = isReal ? describe : describe.skip;

ofRealServers("the chart's admission policies", () => {
  const server = useServer();
  const release = 'conversation-operator';
  const releaseNamespace = `policies-${randomBytes(4).toString('hex')}`;
  const accountOf = (component: string) =>
    `system:serviceaccount:${releaseNamespace}:${release}-${component}`;
  const cases = policyCases({ gateway: accountOf('gateway'), operator: accountOf('operator') });
  const clusterWide: string[] = [];

  const run = async (args: readonly string[], objects?: readonly object[]) => {
    const input =
      objects === undefined
        ? undefined
        : JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    const result = await server().kubectl(args, input);
    if (result.code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${result.stderr}`);
    return result.stdout;
  };

  beforeAll(async () => {
    const { namespace } = server();
    const chart = await RenderedChart.of(4, {
      release,
      namespace: releaseNamespace,
      values: { policies: { enabled: true }, sandboxes: { namespace } },
    });
    const policies = chart.resources.filter(({ kind }: Body) =>
      String(kind).startsWith('ValidatingAdmissionPolicy'),
    );
    for (const { kind, metadata } of policies)
      clusterWide.push(`${String(kind).toLowerCase()}/${metadata.name}`);
    const roles = chart.resources.filter(
      ({ kind, metadata }: Body) =>
        ['Role', 'RoleBinding'].includes(kind) && metadata.namespace === namespace,
    );
    await run(['apply', '-f', '-'], [...roles, ...tenantRoles(namespace), ...policyFixtures]);
    const uid = await run(uidOfReferred);
    await run(['apply', '-f', '-'], referringFixtures(uid));
    const fromBefore = {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'SandboxTemplate',
      metadata: { name: 'from-before' },
      spec: {
        podTemplate: {
          spec: { hostNetwork: true, containers: [{ name: 'agent', image: 'agent:1' }] },
        },
      },
    };
    await run(['apply', '-f', '-'], [fromBefore]);
    await run(['apply', '-f', '-'], policies);
    const [denied] = cases.filter(({ refused }) => refused !== undefined);
    if (denied === undefined) throw new Error('no case is refused');
    await eventually(
      'policies to work',
      async () => judge(denied, await attempt(denied)) === '',
      60_000,
    );
  }, 90_000);
  afterAll(() => run(['delete', ...clusterWide, '--ignore-not-found']));

  const attempt = ({ as, args, input }: (typeof cases)[number]) =>
    server().kubectl(
      [...args, '--as', as],
      input === undefined ? undefined : JSON.stringify(input),
    );

  it.each(
    cases.map(
      (each) =>
        [
          `${each.refused === undefined ? 'allow' : 'refuse'} that ${each.as} ${each.does}`,
          each,
        ] as const,
    ),
  )('%s', async (_name, each) => {
    expect(judge(each, await attempt(each))).toBe('');
  });

  it('type-check', async () => {
    const names = clusterWide.filter((name) => name.startsWith('validatingadmissionpolicy/'));
    const warnings = () =>
      run(['get', ...names, '-o', 'jsonpath={range .items[*]}{.status.typeChecking}{"\\n"}{end}']);
    await eventually(
      'all to be checked',
      async () => (await warnings()).trim().split('\n').length === names.length,
      30_000,
    );
    expect((await warnings()).trim().split('\n')).toEqual(names.map(() => '{}'));
  });

  it('let a template from before be changed in all but its pods', async () => {
    const asAlice = (patch: object) =>
      server().kubectl([
        'patch',
        'sandboxtemplate/from-before',
        '--type',
        'merge',
        '-p',
        JSON.stringify(patch),
        '--as',
        tenants.alice,
      ]);
    expect(await asAlice({ spec: { displayName: 'Another' } })).toMatchObject({ code: 0 });
    expect((await asAlice({ spec: { podTemplate: { spec: { hostPID: true } } } })).stderr).toMatch(
      /the node's namespaces/,
    );
  });

  it('let only an administrator raise a budget beyond maxRaise', async () => {
    const name = 'policy-test-of-alice';
    const questionFor = (decidedBy: 'Owner' | 'Admin') => ({
      id: `budget-of-${decidedBy}`,
      title: 'Continue?',
      kind: 'budget',
      tool: 'budget',
      summary: '',
      options: [],
      requestedTime: '2026-03-01T12:00:00Z',
      callHash: '',
      agentEpoch: 0,
      raise: { amount: '1', unit: 'USD', decidedBy },
    });
    const patched = (as: string, patch: object, subresource?: string) =>
      server().kubectl([
        ...['patch', 'conversation', name, '--type', 'merge', '-p', JSON.stringify(patch)],
        ...['--as', as, ...(subresource === undefined ? [] : [`--subresource=${subresource}`])],
      ]);
    const asks = (as: string, decidedBy: 'Owner' | 'Admin') =>
      patched(as, { status: { approval: questionFor(decidedBy) } }, 'status');
    const answers = async (as: string, answer: object, id: string) => {
      const { code, stderr } = await patched(as, { spec: { approvals: [{ id, ...answer }] } });
      return code === 0 ? '' : stderr;
    };
    const { alice, platform } = tenants;
    const [approve, reject] = [{ decision: 'approve' }, { decision: 'reject' }];
    const onlyAdmin = /only an administrator may allow this raise/;
    const approvals = (value: readonly object[]) =>
      patched(platform, { spec: { approvals: value } });
    expect((await asks(alice, 'Owner')).stderr).toMatch(/questions about budgets/);
    expect(await answers(alice, approve, 'budget-of-Admin')).toMatch(onlyAdmin);
    expect(await answers(alice, approve, 'question-of-an-agent')).toBe('');
    await approvals([]);
    expect(await asks(platform, 'Admin')).toMatchObject({ code: 0 });
    expect((await asks(alice, 'Owner')).stderr).toMatch(/questions about budgets/);
    for (const answer of [approve, { option: 'continue' }])
      expect(await answers(alice, answer, 'budget-of-Admin')).toMatch(onlyAdmin);
    expect(await answers(alice, reject, 'budget-of-Admin')).toBe('');
    await approvals([]);
    expect(await answers(alice, { option: 'stop' }, 'budget-of-Admin')).toBe('');
    await approvals([]);
    expect(await answers(platform, approve, 'budget-of-Admin')).toBe('');
    expect(await patched(alice, { spec: { title: 'y' } })).toMatchObject({ code: 0 });
    await approvals([]);
    expect(await asks(platform, 'Owner')).toMatchObject({ code: 0 });
    expect(await answers(alice, approve, 'budget-of-Owner')).toBe('');
  });

  it('let the garbage collector take the sandbox of a conversation that is deleted', async () => {
    const { namespace } = server();
    const uid = await run([
      'get',
      'conversation',
      'policy-test-of-bob',
      '-o',
      'jsonpath={.metadata.uid}',
    ]);
    const owner = {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Conversation',
      name: 'policy-test-of-bob',
      uid,
    };
    await run([
      'patch',
      'sandbox/policy-test-of-bob',
      '--type',
      'merge',
      '-p',
      JSON.stringify({ metadata: { ownerReferences: [owner] } }),
    ]);
    await run(['delete', 'conversation', 'policy-test-of-bob']);
    await eventually(
      'the sandbox to be gone',
      async () =>
        (await server().kubectl(['--namespace', namespace, 'get', 'sandbox', 'policy-test-of-bob']))
          .code !== 0,
      90_000,
    );
  }, 100_000);
});
