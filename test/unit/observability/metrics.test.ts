import { METHODS } from 'node:http';
import { Registry } from 'prom-client';
import { httpMethod, httpStatus } from '../../../src/observability/closed-metrics.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';

/** Maximum values of a label, and series of a metric, whatever an agent or a tenant chooses. */
const maxValues = 200;
const maxSeries = 1_000;
const junk = Array.from({ length: 2_000 }, (_, index) => `junk-${index}`);
const statuses = Array.from({ length: 1_200 }, (_, status) => String(status));

type Labels = Readonly<Record<string, string>>;
interface Labelled {
  readonly key: string;
  readonly labelNames: readonly string[];
  /** Every function of the metric that takes labels, without the types of their values. */
  readonly drives: readonly ((labels: Labels) => void)[];
}

/** The metrics of the product that have labels, as every call site reaches them. */
const labelledIn = (metrics: object): readonly Labelled[] =>
  Object.entries(metrics).flatMap(([key, metric]: [string, unknown]) => {
    if (typeof metric !== 'object' || metric === null || !('labelNames' in metric)) return [];
    const labelNames = (metric.labelNames as readonly string[]).filter((name) => name !== 'le');
    const call = (name: string, value?: number) => {
      const method: unknown = Reflect.get(metric, name);
      return typeof method === 'function'
        ? [(labels: Labels) => void Reflect.apply(method, metric, [labels, value])]
        : [];
    };
    const drives = [...call('inc'), ...call('dec'), ...call('set', 1), ...call('observe', 1)];
    return labelNames.length === 0
      ? []
      : [{ key, labelNames, drives: [...drives, ...call('labels')] }];
  });

/** Series by metric, without the buckets of histograms. */
const seriesIn = async (registry: Registry): Promise<ReadonlyMap<string, readonly Labels[]>> =>
  new Map(
    (await registry.getMetricsAsJSON()).map(({ name, values }) => [
      name,
      values.flatMap(({ labels: { le, ...labels } }) =>
        le === undefined ? [labels as Labels] : [],
      ),
    ]),
  );

describe('a metric with labels', () => {
  it.each(labelledIn(createMetrics()).map(({ key, labelNames }) => [key, labelNames] as const))(
    '%s has a bounded number of series for any values of its labels %j',
    async (key, labelNames) => {
      const registry = new Registry();
      const drives = labelledIn(createMetrics(registry)).find((one) => one.key === key)?.drives;
      for (const drive of drives ?? [])
        for (const value of [...junk, ...statuses, ...METHODS])
          for (const name of labelNames)
            drive({
              ...Object.fromEntries(labelNames.map((other) => [other, 'junk'])),
              [name]: value,
            });
      const series = [...(await seriesIn(registry)).values()].find((all) =>
        all.some((labels) => labelNames.every((name) => labels[name] !== undefined)),
      );
      expect(series).not.toBeUndefined();
      expect(series?.length).toBeLessThanOrEqual(2 * maxSeries);
      for (const name of labelNames)
        expect(new Set(series?.map((labels) => labels[name])).size).toBeLessThanOrEqual(maxValues);
    },
  );

  it('is one of those above, for each label of the registry', () => {
    const registry = new Registry();
    const known = labelledIn(createMetrics(registry)).length;
    const all = registry.getMetricsAsArray().filter((metric) => labelledIn({ metric }).length > 0);
    expect(all).toHaveLength(known);
    expect(known).toBeGreaterThan(15);
  });

  it('counts the answers of agents by every method and status in less than a thousand series', async () => {
    const registry = new Registry();
    const { httpRequests } = createMetrics(registry);
    for (const method of [...METHODS, ...junk])
      for (const status of statuses) httpRequests.inc({ method, route: '/', status });
    const { values } = await httpRequests.get();
    expect(values.length).toBeLessThan(maxSeries);
    expect(values.map(({ value }) => value).reduce((sum, value) => sum + value, 0)).toBe(
      (METHODS.length + junk.length) * statuses.length,
    );
  });
});

it.each([
  ['0', '0'],
  ['200', '200'],
  ['204', '204'],
  ['299', '2xx'],
  ['399', '3xx'],
  ['499', '4xx'],
  ['503', '503'],
  ['599', '5xx'],
  ['600', 'other'],
  ['999', 'other'],
  ['20', 'other'],
  ['2000', 'other'],
  ['200 ', 'other'],
  ['OK', 'other'],
  ['constructor', 'other'],
])('the status %s is counted as %s', (status, value) => {
  expect(httpStatus(status)).toBe(value);
});

it.each([
  ['GET', 'GET'],
  ['PATCH', 'PATCH'],
  ['get', 'other'],
  ['PROPFIND', 'other'],
  ['M-SEARCH', 'other'],
])('the method %s is counted as %s', (method, value) => {
  expect(httpMethod(method)).toBe(value);
});
