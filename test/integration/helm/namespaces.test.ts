/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment --
  Resources are of every kind; a wrong guess fails the test. */
import type { Body } from '../../support/plane.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';

const render = (sandboxes: object = {}, namespace = 'agents') =>
  RenderedChart.of(4, { namespace, values: { sandboxes } });

/** Namespaces of the objects that belong to sandboxes. */
const placesOf = (chart: RenderedChart) => {
  const ours = chart.resources.filter(({ apiVersion }: Body) =>
    String(apiVersion).startsWith('conversation-operator.dev/'),
  );
  const all = [
    ...ours,
    ...chart.all('Role'),
    ...chart.all('RoleBinding'),
    chart.one('NetworkPolicy', '-sandboxes'),
  ];
  return [...new Set(all.map(({ metadata }: Body) => String(metadata.namespace)))];
};
const enforced = ({ metadata }: Body): unknown =>
  metadata.labels['pod-security.kubernetes.io/enforce'];

describe('the namespace of the sandboxes', () => {
  it("is one of its own, which the chart makes with the standard restricted, beside the release's", async () => {
    const chart = await render();
    expect(chart.one('Namespace').metadata.name).toBe('agents-sandboxes');
    expect(enforced(chart.one('Namespace'))).toBe('restricted');
    expect(placesOf(chart)).toEqual(['agents-sandboxes']);
    for (const { metadata } of [
      ...chart.all('Deployment'),
      ...chart.all('Secret'),
      ...chart.all('Service'),
    ])
      expect(metadata.namespace).toBe('agents');
  });

  it("can be the release's, as it was by default", async () => {
    const chart = await render({ namespace: 'agents' });
    expect(chart.all('Namespace')).toEqual([]);
    expect(placesOf(chart)).toEqual(['agents']);
  });

  it('can be one that is there already, or another one that the chart makes', async () => {
    expect((await render({ namespace: 'team' })).all('Namespace')).toEqual([]);
    const made = await render({
      namespace: 'team',
      createNamespace: true,
      podSecurityStandard: 'baseline',
    });
    expect(enforced(made.one('Namespace'))).toBe('baseline');
    expect((await render({ createNamespace: false })).all('Namespace')).toEqual([]);
  });

  it('has a name that Kubernetes takes, however long that of the release is', async () => {
    const { name } = (await render({}, `${'a'.repeat(52)}-${'b'.repeat(10)}`)).one(
      'Namespace',
    ).metadata;
    expect(name).toBe(`${'a'.repeat(52)}-sandboxes`);
  });
});
