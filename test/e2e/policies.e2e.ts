import { eventually } from '../support/eventually.ts';
import { kubectl as run } from '../support/kubectl.ts';
import {
  judge,
  policyCases,
  policyFixtures,
  referringFixtures,
  tenantRoles,
  uidOfReferred,
} from '../support/policy-cases.ts';
import { kubeconfig, kubectl } from './support/cluster.ts';
import { readFacts, release } from './support/installation.ts';

const { namespace, sandboxes } = readFacts();
const accountOf = (component: string) =>
  `system:serviceaccount:${namespace}:${release}-${component}`;
const cases = policyCases({ gateway: accountOf('gateway'), operator: accountOf('operator') });
const list = (items: readonly object[]) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
const inNamespace = (args: readonly string[], input?: string) =>
  run(kubeconfig, ['--namespace', sandboxes, ...args], input);

describe('the admission policies of the installed chart', () => {
  const objects = list([...tenantRoles(sandboxes), ...policyFixtures]);
  let referring = list([]);
  beforeAll(async () => {
    await inNamespace(['apply', '-f', '-'], objects);
    referring = list(referringFixtures((await inNamespace(uidOfReferred)).stdout));
    await inNamespace(['apply', '-f', '-'], referring);
  });
  afterAll(async () => {
    await inNamespace(['delete', '--ignore-not-found', '-f', '-'], referring);
    await inNamespace(['delete', '--ignore-not-found', '-f', '-'], objects);
  });

  it('are there without being asked for, and type-check', async () => {
    const names = (await kubectl('get validatingadmissionpolicies -o name'))
      .split('\n')
      .filter((name) => name.includes(`/${namespace}-`));
    expect(names).toHaveLength(6);
    const warnings = () =>
      kubectl([
        'get',
        ...names,
        '-o',
        'jsonpath={range .items[*]}{.status.typeChecking}{"\\n"}{end}',
      ]);
    await eventually(
      'all to be checked',
      async () => (await warnings()) === names.map(() => '{}').join('\n'),
    );
  });

  it.each(
    cases.map(
      (each) =>
        [
          `${each.refused === undefined ? 'allow' : 'refuse'} that ${each.as} ${each.does}`,
          each,
        ] as const,
    ),
  )('%s', async (_name, each) => {
    const result = await inNamespace(
      [...each.args, '--as', each.as],
      each.input === undefined ? undefined : JSON.stringify(each.input),
    );
    expect(judge(each, result)).toBe('');
  });
});
