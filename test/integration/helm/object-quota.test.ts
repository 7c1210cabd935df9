/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment --
  Resources are of every kind; a wrong guess fails the test. */
import { renderChart } from '../../../helm/tools/render.ts';
import { definitions } from '../../../src/resources/crd.ts';
import { group } from '../../../src/resources/group.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';

const known = [`${group}/v1alpha1`];

describe('the ResourceQuota on the number of objects', () => {
  it('counts every kind of the product, in the namespace of the sandboxes', async () => {
    const { metadata, spec } = (await RenderedChart.of(4, { apiVersions: known })).one(
      'ResourceQuota',
    );
    expect(metadata.namespace).toBe('agents-sandboxes');
    expect(Object.keys(spec.hard as object).sort()).toEqual(
      definitions.map(({ plural }) => `count/${plural}.${group}`).sort(),
    );
    expect(spec.hard[`count/conversations.${group}`]).toBe('10000');
  });

  it('comes with the first upgrade, once the cluster knows the kinds: before, it would refuse all of them for minutes', async () => {
    expect((await RenderedChart.of(4)).all('ResourceQuota')).toEqual([]);
  });

  it.each([
    [true, [], 1],
    [false, known, 0],
  ])('is made, or not, as the value %s says', async (enabled, apiVersions, count) => {
    const chart = await RenderedChart.of(4, {
      values: { objectQuota: { enabled, conversations: 2_000_000 } },
      apiVersions,
    });
    expect(chart.all('ResourceQuota')).toHaveLength(count);
    // Helm writes large numbers in another form when a template takes no care.
    for (const { spec } of chart.all('ResourceQuota'))
      expect(spec.hard[`count/conversations.${group}`]).toBe('2000000');
  });

  it('refuses a number that is none', async () => {
    await expect(renderChart(4, { values: { objectQuota: { sandboxes: -1 } } })).rejects.toThrow(
      'sandboxes',
    );
  });
});
