import { chartFolder } from '../../helm/tools/render.ts';
import { eventually } from '../support/eventually.ts';
import { kubectl } from './support/cluster.ts';
import { TestedInstallation, chartValues, helm, release, report } from './support/installation.ts';
import { deletePersistently, startPersistently } from './support/persistent-start.ts';
import { previousVersion } from './support/previous-chart.ts';
import { ReadWatch } from './support/read-watch.ts';

const up = new TestedInstallation('upgrade');
const { facts } = up;
const withinMs = 120_000;
const inRelease = (args: string) => kubectl(`--namespace ${facts.namespace} ${args}`);

/** Other pods, as with another image. */
const newer = (mark: string) => ({
  ...chartValues(facts),
  operator: { podAnnotations: { 'e2e/mark': mark } },
  gateway: { podAnnotations: { 'e2e/mark': mark } },
});
const upgrade = (chart: string, mark: string, more: object = {}) =>
  helm(['upgrade', release, chart, '--namespace', facts.namespace, '--wait', '--timeout', '180s'], {
    ...newer(mark),
    ...more,
  });

describe('an upgrade from the previous chart', () => {
  let running: { id: string; sandbox: string; pod: string };
  let paused: { id: string; sandbox: string };
  let secrets: string;
  const podOf = (sandbox: string) => up.k(`get pod ${sandbox} -o jsonpath={.metadata.uid}`);
  const secretData = () =>
    inRelease(`get secret ${release}-master-key ${release}-first-key -o jsonpath={.items[*].data}`);
  const crdVersion = () =>
    kubectl(
      'get crd conversations.conversation-operator.dev -o jsonpath={.metadata.annotations.conversation-operator\\.dev/chart-version}',
    );

  beforeAll(async () => {
    const start = async () => {
      const task = await up.over((await up.start('```sh\necho kept >kept.txt\n```')).id, withinMs);
      const ids = { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
      await up.reaches(ids.id, { execution_status: 'finished' }, withinMs);
      return ids;
    };
    const first = await start();
    running = { ...first, pod: await podOf(first.sandbox) };
    paused = await start();
    await up.call('POST', `/api/v1/sandboxes/${paused.sandbox}/pause`);
    await up.reaches(paused.id, { sandbox_status: 'PAUSED' }, withinMs);
    secrets = await secretData();
    expect(await crdVersion()).toBe(previousVersion);
  });
  afterAll(() =>
    Promise.all(
      [running, paused].map(({ id }) => up.call('DELETE', `/api/v1/app-conversations/${id}`)),
    ),
  );

  it('lets starts through and reads be answered while everything is replaced', async () => {
    const reads = new ReadWatch(up);
    const begun = performance.now();
    const over = new AbortController();
    const upgraded = upgrade(chartFolder, 'upgrade').finally(() => over.abort());
    // The test checks the result after the starts.
    upgraded.catch(() => undefined);
    const tasks = [];
    try {
      do {
        const task = await startPersistently(up, 'Hello.');
        tasks.push(task);
        // As many as a slow machine starts would exceed the quota, which pauses the one that runs.
        await deletePersistently(up, task.app_conversation_id ?? '');
      } while (!over.signal.aborted);
      await upgraded;
    } finally {
      await reads.stop();
    }
    report('helm upgrade --wait', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    expect(tasks.map(({ status, error }) => [status, error])).toEqual(
      tasks.map(() => ['READY', null]),
    );
    expect(reads.answers).toBeGreaterThan(0);
    expect(reads.failures).toEqual([]);
  }, 240_000);

  it('has brought the processes and the definitions to the new version, once', async () => {
    expect(await crdVersion()).not.toBe(previousVersion);
    const marks = "jsonpath={.items[*].metadata.annotations['e2e/mark']}";
    await eventually('no pod of before to be left', async () => {
      const found = await inRelease(
        `get pods -l app.kubernetes.io/instance=${release} -o ${marks}`,
      );
      return found === 'upgrade upgrade upgrade upgrade';
    });
    const chart = await inRelease(
      `get deployment ${release}-operator -o jsonpath={.metadata.labels.helm\\.sh/chart}`,
    );
    expect(chart).not.toContain(previousVersion);
  });

  it('has touched neither what runs, nor files, nor keys', async () => {
    expect(await podOf(running.sandbox)).toBe(running.pod);
    expect(await up.conversation(running.id)).toMatchObject({
      sandbox_status: 'RUNNING',
      execution_status: 'finished',
    });
    expect(await secretData()).toBe(secrets);
    expect(await up.conversation(paused.id)).toMatchObject({
      sandbox_status: 'PAUSED',
      sandbox_status_reason: 'user',
    });
    await up.call('POST', `/api/v1/sandboxes/${paused.sandbox}/resume`);
    await up.reaches(paused.id, { sandbox_status: 'RUNNING' }, withinMs);
    expect(await up.inSandbox(paused.sandbox, 'cat /workspace/project/kept.txt')).toBe('kept');
  });

  it('leaves what people have changed, forwards and backwards, and lets the rest follow the values', async () => {
    const limit = () => up.k('get conversationquota default -o jsonpath={.spec.limit}');
    const described = () => up.k('get sandboxtemplate default -o jsonpath={.spec.description}');
    const description = await described();
    const patched = (to: number) =>
      up.k([
        ...['patch', 'conversationquota', 'default', '--type', 'merge'],
        ...['-p', JSON.stringify({ spec: { limit: to } })],
      ]);
    await patched(11);
    const { defaultTemplate } = chartValues(facts) as { readonly defaultTemplate: object };
    await upgrade(chartFolder, 'values', {
      defaultQuota: { limit: 12 },
      defaultTemplate: { ...defaultTemplate, description: 'Of the upgrade.' },
    });
    await eventually(
      'the template to follow',
      async () => (await described()) === 'Of the upgrade.',
    );
    expect(await limit()).toBe('11');
    const back = ['--namespace', facts.namespace, '--wait', '--timeout', '180s'];
    await helm(['rollback', release, ...back]);
    await eventually('the template to follow', async () => (await described()) === description);
    expect(await limit()).toBe('11');
    expect(await podOf(running.sandbox)).toBe(running.pod);
    // As the values have it, so it follows them again.
    await patched(10);
    await upgrade(chartFolder, 'upgrade', { defaultQuota: { limit: 12 } });
    await eventually('the quota to follow', async () => (await limit()) === '12');
    await upgrade(chartFolder, 'upgrade');
    await eventually('the quota to follow', async () => (await limit()) === '10');
  }, 400_000);

  it('can be rolled back, with the same care', async () => {
    await helm([
      'rollback',
      release,
      '1',
      '--namespace',
      facts.namespace,
      '--wait',
      '--timeout',
      '180s',
    ]);
    expect(await crdVersion()).toBe(previousVersion);
    expect(await podOf(running.sandbox)).toBe(running.pod);
    const task = await startPersistently(up, 'Hello.');
    expect(task).toMatchObject({ status: 'READY', error: null });
    await up.call('DELETE', `/api/v1/app-conversations/${task.app_conversation_id ?? ''}`);
    await upgrade(chartFolder, 'again');
    expect(await podOf(running.sandbox)).toBe(running.pod);
  }, 300_000);

  it('is not undone by an older chart, whose definitions would drop what is stored', async () => {
    await expect(upgrade(facts.previousChart, 'older')).rejects.toThrow(/newer than this chart/);
    expect(await crdVersion()).not.toBe(previousVersion);
  });
});
