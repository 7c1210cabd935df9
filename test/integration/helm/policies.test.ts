/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access --
  Resources are of every kind; a wrong guess fails the test. */
import { renderChart } from '../../../helm/tools/render.ts';
import type { Body } from '../../support/plane.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';

const served = ['admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy'];
const kind = 'ValidatingAdmissionPolicy';
const endings = ['-api-keys', '-handovers', '-owners', '-scale', '-templates', '-usage'];
const namesOf = (chart: RenderedChart, of = kind): readonly string[] =>
  chart.all(of).map(({ metadata }: Body) => String(metadata.name));

describe("the chart's admission policies", () => {
  it('are made where the cluster serves them, and nowhere else', async () => {
    const without = await RenderedChart.of(4);
    const withThem = await RenderedChart.of(4, { apiVersions: served });
    expect(namesOf(without)).toEqual([]);
    expect([...namesOf(withThem)].sort()).toEqual(
      endings.map((ending) => `agents-conversation-operator${ending}`),
    );
    expect([...namesOf(withThem, `${kind}Binding`)].sort()).toEqual([...namesOf(withThem)].sort());
  });

  it.each([
    [true, [], endings.length],
    [false, served, 0],
  ])(
    'are made, or not, as the value %s says, whatever is known of the cluster',
    async (enabled, apiVersions, count) => {
      expect(
        namesOf(await RenderedChart.of(4, { values: { policies: { enabled } }, apiVersions })),
      ).toHaveLength(count);
    },
  );

  it.each([
    ['owners', ['-api-keys', '-templates', '-usage']],
    ['apiKeys', ['-handovers', '-owners', '-scale', '-templates', '-usage']],
    ['templates', ['-api-keys', '-handovers', '-owners', '-scale', '-usage']],
    ['usage', ['-api-keys', '-handovers', '-owners', '-scale', '-templates']],
  ])('come without those of %s when these are switched off', async (name, left) => {
    const chart = await RenderedChart.of(4, {
      values: { policies: { enabled: true, [name]: false } },
    });
    expect([...namesOf(chart)].sort()).toEqual(
      left.map((ending) => `agents-conversation-operator${ending}`),
    );
  });

  it('hold in the namespace of the sandboxes, in every one for an operator of all namespaces, and do what is asked', async () => {
    const one = await RenderedChart.of(4, {
      values: {
        policies: { enabled: true, validationActions: ['Warn', 'Audit'] },
        sandboxes: { namespace: 'elsewhere' },
      },
    });
    for (const { spec } of one.all(`${kind}Binding`)) {
      expect(spec.validationActions).toEqual(['Warn', 'Audit']);
      expect(spec.matchResources).toEqual({
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'elsewhere' } },
      });
    }
    const all = await RenderedChart.of(4, {
      values: { policies: { enabled: true }, operator: { allNamespaces: true } },
    });
    for (const { spec } of all.all(`${kind}Binding`)) expect(spec.matchResources).toBeUndefined();
  });

  it('let every account of the chart write UsageRecords that has a Role for it', async () => {
    const chart = await RenderedChart.of(4, { values: { policies: { enabled: true } } });
    const has = ({ rules }: Body, resource: RegExp, verb: RegExp): boolean =>
      (rules as Body[]).some(
        ({ resources, verbs }: Body) =>
          (resources as string[]).some((each) => resource.test(each)) &&
          (verbs as string[]).some((each) => verb.test(each)),
      );
    const rolesWith = (resource: RegExp, verb: RegExp) =>
      chart
        .all('Role')
        .filter((role: Body) => has(role, resource, verb))
        .map(({ metadata }: Body) => metadata.name as string);
    const writers = rolesWith(/^usagerecords(\/|$)/, /^(create|update|patch|delete)$/);
    expect(writers.length).toBeGreaterThan(1);
    expect(rolesWith(/^usagerecords$/, /^charge$/)).toEqual(writers);
  });

  it('have names that no release of another namespace has', async () => {
    const values = { policies: { enabled: true } };
    const [one, other] = [
      await RenderedChart.of(4, { values }),
      await RenderedChart.of(4, { values, namespace: 'others' }),
    ];
    expect(namesOf(one).filter((name) => namesOf(other).includes(name))).toEqual([]);
  });

  it.each([
    ['a word that means nothing', { enabled: 'yes' }, 'enabled'],
    ['an action that does not exist', { validationActions: ['Refuse'] }, 'validationActions'],
    ['no action', { validationActions: [] }, 'validationActions'],
  ])('refuse %s', async (_name, policies, word) => {
    await expect(renderChart(4, { values: { policies } })).rejects.toThrow(word);
  });
});
