import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@conversation-operator/base/logger';
import { stringify } from 'yaml';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { readOperatorConfig } from '../../src/config/cluster.ts';
import { defaultTemplate } from '../../src/commands/initial-objects.ts';
import {
  initialSpecAnnotation,
  InitialObjects,
} from '../../src/controllers/initial-objects/reconcile.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { eventually } from '../support/eventually.ts';
import { kubectl } from '../support/kubectl.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { SplitInstallation } from '../support/split-installation.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const namespace = 'default';
const labels = { 'app.kubernetes.io/name': 'conversation-operator' };
const quota = (spec: object = {}) => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'ConversationQuota',
  metadata: { name: 'default', namespace, labels },
  // The API server adds the other fields, which have defaults.
  spec: { scope: 'Owner', limit: 10, ...spec },
});
const template = (image: string) => {
  const { metadata, spec, ...rest } = defaultTemplate(namespace);
  const containers = [{ name: 'agent', image }];
  return {
    ...rest,
    metadata: { ...metadata, labels },
    spec: { ...spec, podTemplate: { spec: { containers } } },
  };
};

let api: RunningApiServer;
let client: HttpKubeClient;
beforeEach(async () => {
  api = await runApiServer();
  ({ client } = api);
});
afterEach(() => api.close());

const k = async (...args: readonly string[]) => {
  const { code, stdout, stderr } = await kubectl(api.kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
};
const limit = () => k('get', 'conversationquota', 'default', '-o', 'jsonpath={.spec.limit}');
const image = () =>
  k(
    ...['get', 'sandboxtemplate', 'default', '-o'],
    'jsonpath={.spec.podTemplate.spec.containers[0].image}',
  );
const patch = (kind: string, ...rest: readonly string[]) => k('patch', kind, 'default', ...rest);
const objectsOf = (...documents: readonly object[]) =>
  readOperatorConfig({
    MASTER_KEY_FILES: '/none',
    INITIAL_OBJECTS: documents.map((each) => stringify(each)).join('---\n'),
  }).INITIAL_OBJECTS;

/** Returns the log of a process that becomes ready, leads, and ends. */
async function operatorWith(...documents: readonly object[]): Promise<readonly string[]> {
  const { logger, lines } = recordingLogger();
  const clock = new VirtualClock();
  const objects = new InitialObjects({
    client,
    logger,
    clock,
    random: Math.random,
    objects: objectsOf(...documents),
  });
  const ended = new AbortController();
  await objects.ensure(ended.signal);
  const maintained = objects.maintain(ended.signal).catch(() => undefined);
  // The leader sleeps until the first check.
  await eventually('the objects to follow', () => clock.timers > 0);
  ended.abort();
  await maintained;
  return lines.map(({ message, fields }) => `${String(fields['kind'])}: ${message}`);
}

describe('The objects that an installation begins with', () => {
  it('are there before a process is ready, once', async () => {
    expect(await operatorWith(quota(), template('agent:1'))).toEqual([
      'ConversationQuota: an initial object was created',
      'SandboxTemplate: an initial object was created',
    ]);
    expect([await limit(), await image()]).toEqual(['10', 'agent:1']);
    expect(await operatorWith(quota(), template('agent:1'))).toEqual([]);
  });

  it('follow the values, and give up fields that the values do not have any more', async () => {
    await operatorWith(quota({ maxSandboxes: 100 }), template('agent:1'));
    expect(await operatorWith(quota({ limit: 20 }), template('agent:2'))).toEqual([
      'ConversationQuota: an initial object was replaced',
      'SandboxTemplate: an initial object was replaced',
    ]);
    expect([await limit(), await image()]).toEqual(['20', 'agent:2']);
    expect(await k('get', 'conversationquota', 'default', '-o', 'json')).not.toContain(
      '"maxSandboxes": 100',
    );
  });

  it.each([
    ['a field that is patched', 'conversationquota', 'merge', '{"spec":{"limit":3}}'],
    ['a field that is added', 'conversationquota', 'merge', '{"spec":{"maxConversations":7}}'],
    ['a default that is changed', 'conversationquota', 'merge', '{"spec":{"autoResume":"Never"}}'],
    [
      'a field that is removed',
      'sandboxtemplate',
      'json',
      '[{"op":"remove","path":"/spec/idleTimeout"}]',
    ],
  ])('are left as people have made them: %s', async (_name, kind, type, change) => {
    await operatorWith(quota(), template('agent:1'));
    await patch(kind, '--type', type, '-p', change);
    const before = await k('get', kind, 'default', '-o', 'json');
    const changed = kind === 'sandboxtemplate' ? 'SandboxTemplate' : 'ConversationQuota';
    // A new version, the values of before (a rollback), and the new one again.
    for (const [wanted, tag] of [
      [quota({ limit: 20 }), '2'],
      [quota(), '1'],
      [quota({ limit: 20 }), '2'],
    ] as const) {
      await operatorWith(wanted, template(`agent:${tag}`));
      expect(await k('get', kind, 'default', '-o', 'json')).toBe(before);
    }
    expect(await operatorWith(quota({ limit: 20 }), template('agent:2'))).toEqual([
      `${changed}: an initial object was changed, so the values do not count for it`,
    ]);
  });

  it('follow again once a change is taken back', async () => {
    await operatorWith(quota());
    await patch('conversationquota', '--type', 'merge', '-p', '{"spec":{"limit":3}}');
    await operatorWith(quota({ limit: 20 }));
    await patch('conversationquota', '--type', 'merge', '-p', '{"spec":{"limit":10}}');
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('20');
  });

  it('may get labels, annotations and a status without counting as changed', async () => {
    await operatorWith(quota());
    await k('label', 'conversationquota', 'default', 'team=a');
    await k('annotate', 'conversationquota', 'default', 'note=b');
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('20');
    expect(await k('get', 'conversationquota', 'default', '--show-labels')).toContain('team=a');
  });

  it('belong to people without the annotation, and follow no values', async () => {
    await operatorWith(quota());
    await k('annotate', 'conversationquota', 'default', `${initialSpecAnnotation}-`);
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('10');
  });

  it('come back after a deletion, not at once: kubectl replace --force creates them itself', async () => {
    const clock = new VirtualClock();
    const objects = new InitialObjects({
      client,
      logger: silentLogger,
      clock,
      random: Math.random,
      objects: objectsOf(quota()),
    });
    const ended = new AbortController();
    const maintained = objects.maintain(ended.signal).catch(() => undefined);
    const checked = () => eventually('a check', () => clock.timers > 0);
    await checked();
    await k('delete', 'conversationquota', 'default');
    await clock.advance(15_000);
    await checked();
    expect(await k('get', 'conversationquotas', '-o', 'name')).toBe('');
    await clock.advance(15_000);
    await checked();
    expect(await limit()).toBe('10');
    ended.abort();
    await maintained;
  });

  it('keep a process from becoming ready with values that the API server refuses', async () => {
    await operatorWith(quota());
    const { logger, lines } = recordingLogger();
    const clock = new VirtualClock();
    const objects = objectsOf(quota({ limit: -1 }));
    const ended = new AbortController();
    let ready = false;
    const ensured = new InitialObjects({ client, logger, clock, random: Math.random, objects })
      .ensure(ended.signal)
      .then(
        () => (ready = true),
        () => undefined,
      );
    await eventually('the refusal', () => lines.length > 0);
    expect(lines[0]).toMatchObject({ level: 'warn', fields: { name: 'default' } });
    expect(String(lines[0]?.fields['error'])).toContain('spec.limit');
    ended.abort();
    await ensured;
    expect(ready).toBe(false);
    expect(await limit()).toBe('10');
  });
});

it('The program makes them, and follows the settings of its next start', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'initial-'));
  const installation = await SplitInstallation.start(folder);
  const wanted = { ...quota(), metadata: { name: 'initial', namespace, labels } };
  const settings = (limit: number) => ({
    INITIAL_OBJECTS: stringify({ ...wanted, spec: { ...wanted.spec, limit } }),
  });
  const stored = async () => {
    const args = ['get', 'conversationquota', 'initial', '-o', 'jsonpath={.spec.limit}'];
    return (await kubectl(installation.kubeconfig, args)).stdout;
  };
  installation.addOperator('one', settings(10));
  await eventually('the quota', async () => (await stored()) === '10');
  installation.addOperator('two', settings(20));
  await installation.killOperator('one');
  await eventually('the quota to follow', async () => (await stored()) === '20');
  await installation.stop();
  rmSync(folder, { recursive: true });
}, 60_000);

describe('Objects of a release from before', () => {
  const ofHelm = {
    ...labels,
    'app.kubernetes.io/instance': 'conversation-operator',
    'app.kubernetes.io/managed-by': 'Helm',
  };
  type Fields = Readonly<Record<string, object>>;
  const fieldsOf = (part: string, names: readonly string[]): Fields => ({
    [part]: Object.fromEntries(names.map((name) => [`f:${name}`, {}])),
  });
  const labelFields = (names: readonly string[]) => ({ 'f:metadata': fieldsOf('f:labels', names) });
  const specFields = (...names: readonly string[]) => fieldsOf('f:spec', names);
  const chartLabels = labelFields(Object.keys(ofHelm));
  const everything = specFields('limit', 'minActiveSeconds', 'onExceeded', 'scope');
  /** An object with the managed fields of a real API server, which the embedded one only keeps. */
  const stored = async (
    managers: Readonly<Record<string, Fields>>,
    { spec = { limit: 10 }, its = ofHelm }: { readonly spec?: object; readonly its?: object } = {},
  ) => {
    const { metadata, ...rest } = quota(spec);
    const managedFields = Object.entries(managers).map(([manager, fieldsV1]) => ({
      apiVersion: rest.apiVersion,
      fieldsType: 'FieldsV1',
      fieldsV1,
      manager,
      operation: manager === 'helm' ? 'Apply' : 'Update',
      time: '2026-01-01T00:00:00Z',
    }));
    const object = { ...rest, metadata: { ...metadata, labels: its, managedFields } };
    const { code, stderr } = await kubectl(
      api.kubeconfig,
      ['create', '-f', '-'],
      JSON.stringify(object),
    );
    if (code !== 0) throw new Error(stderr);
  };

  it('follow the values', async () => {
    const helm = { ...chartLabels, ...specFields('limit', 'scope') };
    await stored({ helm, 'kubectl-label': labelFields(['team']) });
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('20');
    await operatorWith(quota({ limit: 30 }));
    expect(await limit()).toBe('30');
  });

  it.each<[string, Readonly<Record<string, Fields>>]>([
    [
      'kubectl patch has changed a field',
      { helm: { ...chartLabels, ...specFields('scope') }, 'kubectl-patch': specFields('limit') },
    ],
    [
      'kubectl replace has changed all that the chart had said',
      { helm: chartLabels, 'kubectl-replace': everything },
    ],
    [
      'a tool of GitOps has changed all that the chart had said',
      { helm: chartLabels, kubectl: { ...chartLabels, ...everything } },
    ],
  ])('are left alone where %s', async (_name, managers) => {
    await stored(managers, { spec: { limit: 3 } });
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('3');
  });

  it('are left alone where they are not of the chart', async () => {
    const helm = { ...labelFields(['team']), ...specFields('limit', 'scope') };
    await stored({ helm }, { spec: { limit: 3 }, its: { team: 'a' } });
    await operatorWith(quota({ limit: 20 }));
    expect(await limit()).toBe('3');
  });
});

describe('INITIAL_OBJECTS', () => {
  it.each([
    ['no YAML', '{', 'INITIAL_OBJECTS: must be documents of YAML'],
    [
      'another kind',
      stringify({ ...quota(), kind: 'Secret' }),
      'must be ConversationQuota or SandboxTemplate',
    ],
    [
      'no namespace',
      stringify({ ...quota(), metadata: { name: 'default' } }),
      'must be the namespace of the object',
    ],
  ])('is refused with %s, by name', (_name, text, message) => {
    const read = () => readOperatorConfig({ MASTER_KEY_FILES: '/none', INITIAL_OBJECTS: text });
    expect(read).toThrow('INITIAL_OBJECTS');
    expect(read).toThrow(message);
  });
});
