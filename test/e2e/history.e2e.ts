import { createHash } from 'node:crypto';
import { z } from 'zod';
import { chartFolder } from '../../helm/tools/render.ts';
import { archivedCondition } from '../../src/controllers/archive/archive-status.ts';
import { sandboxLabel } from '../../src/resources/sandbox.ts';
import { say } from '../forge/support/agent-at-work.ts';
import { eventually } from '../support/eventually.ts';
import { unzip } from '../support/unzip.ts';
import { closeServer } from './support/closed-server.ts';
import { apply, containerTask, getJson, kubectl, stateFolder } from './support/cluster.ts';
import {
  agentImage,
  chartValues,
  helm,
  release,
  report,
  TestedInstallation,
} from './support/installation.ts';
import { podsThatReach, selected } from './support/network-policies.ts';
import { committed, components, rightsOf, type Component } from './support/rights.ts';
import { startS3OfCluster, type S3OfCluster } from './support/s3-pod.ts';

const up = new TestedInstallation('history');
const { namespace, sandboxes, tools } = up.facts;
const bucket = 'history';
const prefix = 'e2e';
const credentials = 'e2e-history';
const readyMs = 60_000;
/** The claim of a start may have to wait for a binder that repeats itself once a minute. */
const startMs = 150_000;
/** Events of an agent are archived within 30 s; the rest is for a busy machine. */
const archivedMs = 45_000;
/** First bytes of an object: a frame of zstd, and a sealed one. */
const [plain, sealed] = [0x28, 0xe1];

const inRelease = (args: string) => kubectl(`--namespace ${namespace} ${args}`);
const podsOf = (component: Component) =>
  selected(namespace, {
    matchLabels: {
      'app.kubernetes.io/instance': release,
      'app.kubernetes.io/component': component,
    },
  });
const both = async () => (await Promise.all(components.map(podsOf))).flat().toSorted();

const eventSchema = z.looseObject({ id: z.string(), kind: z.string(), timestamp: z.string() });
type Event = z.output<typeof eventSchema>;
const pageSchema = z.object({ items: z.array(eventSchema), next_page_id: z.string().nullable() });

const recordSchema = z.object({
  metadata: z.object({ uid: z.string() }),
  status: z.object({
    archive: z
      .object({ head: z.string(), events: z.number(), bytes: z.number(), time: z.string() })
      .optional(),
    conditions: z
      .array(z.object({ type: z.string(), status: z.string(), reason: z.string() }))
      .default([]),
  }),
});

let store: S3OfCluster;
let closed: AsyncDisposable;

/** The store is closed to all pods but those whose policies open it now. */
async function closeStore(): Promise<void> {
  closed = await closeServer(store.target, [namespace, sandboxes]);
}

async function upgrade(archive: object | undefined): Promise<void> {
  const before = await both();
  await helm(
    [
      ...['upgrade', release, chartFolder, '--namespace', namespace],
      ...['--wait', '--timeout', '180s'],
    ],
    chartValues({ ...up.facts, ...(archive === undefined ? {} : { archive }) }),
  );
  await eventually(
    'the pods of before to be gone',
    async () => !(await both()).some((pod) => before.includes(pod)),
    readyMs,
  );
  await closeStore();
}
const archiveValues = ({ encrypt }: { readonly encrypt: boolean }) => ({
  encrypt,
  s3: { bucket, prefix, endpoint: store.url, secretName: credentials },
});

beforeAll(async () => {
  const { repository, tag } = agentImage();
  const begun = performance.now();
  store = await startS3OfCluster(tools, `${repository}:${tag}`);
  report('an S3 server in a pod', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
  await store.newBucket(bucket);
  await apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: credentials, namespace },
    stringData: store.secret,
  });
  await upgrade(archiveValues({ encrypt: false }));
}, 400_000);
afterAll(async () => {
  for (const id of started.splice(0)) await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  await closed[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

const started: string[] = [];
interface Started {
  readonly id: string;
  readonly sandbox: string;
}
async function start(text: string): Promise<Started> {
  const task = await up.over((await up.start(text)).id, startMs);
  expect(task).toMatchObject({ status: 'READY', error: null });
  const id = task.app_conversation_id ?? '';
  started.push(id);
  return { id, sandbox: task.sandbox_id ?? '' };
}
async function startAndFinish(text: string): Promise<Started> {
  const made = await start(text);
  await up.reaches(made.id, { execution_status: 'finished' }, readyMs);
  return made;
}
/** Sends a message to an agent that runs, and waits until the agent has done what it asks. */
async function ask({ id, sandbox }: Started, blocks: readonly string[]): Promise<void> {
  const mark = `asked-${++asked}`;
  await say(up, id, script([...blocks, `touch ../${mark}`]));
  await eventually(
    'what the message asks to be done',
    () => up.inSandbox(sandbox, `ls /workspace/${mark}`),
    readyMs,
  );
  await up.reaches(id, { execution_status: 'finished' }, readyMs);
}
let asked = 0;
/** A message to the reference agent, which calls a tool for each block. */
const script = (blocks: readonly string[]): string =>
  blocks.map((block) => ['```sh', block, '```'].join('\n')).join('\n');

/** Pauses, and waits for the end of the pod, before which the archive gets the last events. */
async function pause(made: Started): Promise<void> {
  await requestPause(made);
  await podGone(made);
}
async function requestPause({ id, sandbox }: Started): Promise<void> {
  expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`)).status).toBe(200);
  await up.reaches(id, { sandbox_status: 'PAUSED' }, readyMs);
}
const podGone = ({ sandbox }: Started) =>
  eventually(
    'its pod to be gone',
    async () => (await up.k(`get pod ${sandbox} --ignore-not-found -o name`)) === '',
    readyMs,
  );
async function resume({ id, sandbox }: Started): Promise<void> {
  expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`)).status).toBe(200);
  await up.reaches(id, { sandbox_status: 'RUNNING' }, readyMs);
}

const eventsPath = (id: string, what: string) => `/api/v1/conversation/${id}/events/${what}`;
async function page(id: string, limit: number, pageId: string | null) {
  const query = `limit=${limit}${pageId === null ? '' : `&page_id=${encodeURIComponent(pageId)}`}`;
  const { status, body } = await up.call('GET', eventsPath(id, `search?${query}`));
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
  return pageSchema.parse(body);
}
interface ReadOptions {
  readonly limit?: number;
  /** Called between two pages, with the number of those that are read. */
  readonly between?: (pages: number) => Promise<void>;
}
/** All events of a conversation, in the order of its pages. */
async function read(
  id: string,
  { limit = 100, between }: ReadOptions = {},
): Promise<readonly Event[]> {
  const events: Event[] = [];
  let pages = 0;
  let pageId: string | null = null;
  do {
    const { items, next_page_id: next } = await page(id, limit, pageId);
    events.push(...items);
    pageId = next;
    if (pageId !== null) await between?.(++pages);
  } while (pageId !== null);
  return events;
}
/** Content and order of events, short enough for a failure to show. */
const printsOf = (events: readonly Event[]): readonly string[] =>
  events.map((event) => {
    const digest = createHash('sha256').update(JSON.stringify(event)).digest('hex');
    return `${event.kind} ${event.id} ${digest.slice(0, 12)}`;
  });
const calls = (events: readonly Event[]) => events.filter(({ kind }) => kind === 'ActionEvent');

const recordOf = async (id: string) =>
  recordSchema.parse(await getJson(`--namespace ${sandboxes} conversation ${id}`));
async function archiveOf(id: string) {
  const { status } = await recordOf(id);
  const condition = status.conditions.find(({ type }) => type === archivedCondition);
  return { events: status.archive?.events ?? 0, reason: condition?.reason };
}
const keysOf = async (uid: string) =>
  (await store.keys(bucket)).filter((key) => key.startsWith(`${prefix}/${sandboxes}/${uid}/`));

/** The events of a download by the names of their files, and the record of the conversation. */
async function download(id: string) {
  const response = await fetch(`${up.url}/api/v1/app-conversations/${id}/download`, {
    headers: { authorization: `Bearer ${up.key}` },
  });
  expect(response.status).toBe(200);
  const files = await unzip(Buffer.from(await response.arrayBuffer()));
  const [, meta = ''] = files.at(-1) ?? [];
  const digest = createHash('sha256')
    .update(JSON.stringify(files.slice(0, -1)))
    .digest('hex');
  return { events: files.slice(0, -1), digest, meta: JSON.parse(meta) as object };
}

it('the notes of the release say where the history is', async () => {
  expect(await helm(['get', 'notes', release, '--namespace', namespace])).toContain(
    `History is kept in the bucket ${bucket}, under ${prefix}/: docs/history.md.`,
  );
});

it('the network policies open the store to the operators and gateways alone', async () => {
  expect(await podsThatReach(namespace, store.target)).toEqual(await both());
  expect(await podsThatReach(sandboxes, store.target)).toEqual([]);
});

it.each(components)('the %s reads no Secret, and has no right more', async (component) => {
  expect(await rightsOf(up.facts, component, sandboxes)).toEqual(committed(component));
  for (const place of [namespace, 'default'])
    expect(await rightsOf(up.facts, component, place)).toEqual(committed('elsewhere'));
  const account = `system:serviceaccount:${namespace}:${release}-${component}`;
  for (const place of [namespace, sandboxes])
    for (const verb of ['get', 'list', 'watch']) {
      const review = await kubectl(
        'create -o jsonpath={.status.allowed} -f -',
        JSON.stringify({
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: {
            user: account,
            resourceAttributes: { namespace: place, verb, resource: 'secrets', name: credentials },
          },
        }),
      );
      expect([place, verb, review]).toEqual([place, verb, 'false']);
    }
});

describe('a conversation', () => {
  let talk: Started;
  let uid: string;
  /** The events of the agent at the last pause. */
  let events: readonly Event[];

  beforeAll(async () => {
    talk = await startAndFinish(script(['echo one', 'echo two >&2', 'seq 100', 'ls -la /']));
    ({ uid } = (await recordOf(talk.id)).metadata);
  });

  it('can not reach the store from its sandbox', async () => {
    const curl = `curl --max-time 5 --silent --output /dev/null ${store.url}/health; echo $?`;
    // A network plugin drops or refuses connections.
    expect(await up.inSandbox(talk.sandbox, curl)).toMatch(/^(7|28)$/);
  });

  it('is archived while its agent runs', async () => {
    events = await read(talk.id);
    expect(calls(events)).toHaveLength(4);
    await eventually(
      'its events to be archived',
      async () => (await archiveOf(talk.id)).events === events.length,
      archivedMs,
    );
    expect(await archiveOf(talk.id)).toMatchObject({ reason: 'Following' });
    expect(await keysOf(uid)).not.toEqual([]);
  });

  it('has the same events in the same order once it is paused, and kubectl shows it', async () => {
    const begun = performance.now();
    await pause(talk);
    report('a pause with its archive', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    expect(printsOf(await read(talk.id))).toEqual(printsOf(events));
    expect(await up.call('GET', eventsPath(talk.id, 'count'))).toMatchObject({
      status: 200,
      body: events.length,
    });
    const yaml = await up.k(`get conversation ${talk.id} -o yaml`);
    expect(yaml).toMatch(
      new RegExp(`^  archive:\n    bytes: \\d+\n    events: ${events.length}\n`, 'm'),
    );
    expect(yaml).toMatch(
      /message: The archive has all events of the agent\.\n +(observedGeneration: \d+\n +)?reason: Complete\n +status: "True"\n +type: Archived/,
    );
    await up.k(`wait --for=condition=Archived conversation/${talk.id} --timeout=10s`);
  });

  it('has the events after a resume too, in pages that a pause and a resume come between', async () => {
    await resume(talk);
    // More than a segment of a megabyte.
    const large = 'head -c 30000 /dev/urandom | base64 -w 0';
    await ask(
      talk,
      Array.from({ length: 36 }, () => large),
    );
    const live = await read(talk.id);
    expect(printsOf(live.slice(0, events.length))).toEqual(printsOf(events));
    expect(calls(live)).toHaveLength(4 + 37);
    events = live;
    // While the pause is under way the archive may lack the last events.
    const early = await read(talk.id, {
      limit: 20,
      between: (pages) => (pages === 1 ? requestPause(talk) : Promise.resolve()),
    });
    expect(early.length).toBeGreaterThanOrEqual(20);
    expect(printsOf(early)).toEqual(printsOf(live.slice(0, early.length)));
    await podGone(talk);
    await resume(talk);
    const paged = await read(talk.id, {
      limit: 20,
      between: async (pages) => {
        if (pages === 1) await pause(talk);
        if (pages === 3) await resume(talk);
      },
    });
    expect(printsOf(paged)).toEqual(printsOf(live));
    await pause(talk);
    expect(printsOf(await read(talk.id, { limit: 20 }))).toEqual(printsOf(live));
    expect(await archiveOf(talk.id)).toEqual({ events: live.length, reason: 'Complete' });
    expect((await keysOf(uid)).some((key) => key.includes(`/${uid}/s/`))).toBe(true);
  }, 240_000);

  it('is read by gateways that have just begun', async () => {
    await inRelease(`rollout restart deployment ${release}-gateway`);
    await inRelease(`rollout status deployment ${release}-gateway --timeout=120s`);
    await eventually('the gateways of before to be gone', async () => {
      return (await podsOf('gateway')).length === 2;
    });
    await closeStore();
    expect(printsOf(await read(talk.id))).toEqual(printsOf(events));
  });

  it('is the same download from the agent, from the archive, and after its sandbox', async () => {
    await resume(talk);
    const live = await download(talk.id);
    expect(printsOf(live.events.map(([, text]) => eventSchema.parse(JSON.parse(text))))).toEqual(
      printsOf(events),
    );
    expect(live.meta).toMatchObject({ id: talk.id, event_count: events.length });
    await pause(talk);
    expect((await download(talk.id)).digest).toBe(live.digest);
    expect((await up.call('DELETE', `/api/v1/sandboxes/${talk.sandbox}`)).status).toBe(200);
    await up.reaches(talk.id, { sandbox_status: 'MISSING' }, readyMs);
    await eventually(
      'its volume to be gone',
      async () => (await up.k(`get pod,pvc ${talk.sandbox} --ignore-not-found -o name`)) === '',
      readyMs,
    );
    expect(printsOf(await read(talk.id, { limit: 50 }))).toEqual(printsOf(events));
    const gone = await download(talk.id);
    expect(gone.digest).toBe(live.digest);
    expect(gone.meta).toMatchObject({ sandbox_status: 'MISSING', event_count: events.length });
  }, 240_000);

  it('leaves no object in the bucket when it is deleted', async () => {
    const before = await keysOf(uid);
    expect(before).not.toEqual([]);
    expect((await up.call('DELETE', `/api/v1/app-conversations/${talk.id}`)).status).toBe(200);
    await eventually(
      'its objects to be gone',
      async () => (await keysOf(uid)).length === 0,
      readyMs,
    );
    expect((await up.call('GET', eventsPath(talk.id, 'search'))).status).toBe(404);
  });
});

describe('a conversation whose pod is lost in the middle of a run', () => {
  it.each([
    ['is drained', drain],
    [
      'is deleted by force',
      (sandbox: string) => up.k(`delete pod ${sandbox} --force --grace-period=0`),
    ],
  ])(
    'has lost nothing that is older than 30 s when it %s, and everything comes after it',
    async (_sentence, lose) => {
      // The last command lasts until its pod is lost, and is over at once where it is repeated.
      const lasting = '[ -e waited ] || { touch waited; while :; do sleep 0.2; done; }';
      const made = await start(script([...Array.from({ length: 12 }, () => 'sleep 2'), lasting]));
      const before = await eventually(
        'events that are older',
        async () => {
          const live = await read(made.id);
          const old = live.filter(
            ({ timestamp }) => Date.parse(`${timestamp}Z`) < Date.now() - archivedMs,
          );
          return old.length >= 8 && { live, old: old.length };
        },
        150_000,
      );
      const { events: archived } = await archiveOf(made.id);
      expect(archived).toBeGreaterThanOrEqual(before.old);
      expect(await up.conversation(made.id)).toMatchObject({ execution_status: 'running' });
      const pod = await up.k(`get pod ${made.sandbox} -o jsonpath={.metadata.uid}`);
      await lose(made.sandbox);
      // Meanwhile the archive answers where the agent can not.
      const meanwhile = await eventually('events without the agent', () => read(made.id), readyMs);
      expect(meanwhile.length).toBeGreaterThanOrEqual(before.old);
      expect(printsOf(meanwhile.slice(0, before.old))).toEqual(
        printsOf(before.live.slice(0, before.old)),
      );
      await eventually(
        'another pod',
        async () =>
          ![pod, ''].includes(
            await up.k(`get pod ${made.sandbox} -o jsonpath={.metadata.uid} --ignore-not-found`),
          ),
        readyMs,
      );
      // The lost command is not repeated, so its work is not done.
      await up.reaches(made.id, { sandbox_status: 'RUNNING', execution_status: 'error' }, 120_000);
      const live = await read(made.id);
      expect(printsOf(live.slice(0, before.live.length))).toEqual(printsOf(before.live));
      await pause(made);
      expect(printsOf(await read(made.id))).toEqual(printsOf(live));
      expect(await archiveOf(made.id)).toEqual({ events: live.length, reason: 'Complete' });
      await up.call('DELETE', `/api/v1/app-conversations/${made.id}`);
    },
    400_000,
  );
});

/** Drains one pod from a node, as an administrator drains the whole node. */
async function drain(sandbox: string): Promise<void> {
  const node = await up.k(`get pod ${sandbox} -o jsonpath={.spec.nodeName}`);
  try {
    await kubectl([
      ...['drain', node, '--force', '--ignore-daemonsets', '--delete-emptydir-data'],
      ...[`--pod-selector=${sandboxLabel}=${sandbox}`, '--timeout=60s'],
    ]);
  } finally {
    await kubectl(`uncordon ${node}`);
  }
}

const containerOf = (place: string, pod: string) =>
  kubectl(
    `--namespace ${place} get pod ${pod} -o jsonpath={.status.containerStatuses[0].containerID}`,
  );

describe('a pause that loses its operator in the middle', () => {
  const deleteLeader = async (made: Started, leader: string) => {
    await Promise.all([
      pause(made),
      inRelease(`delete pod ${leader} --force --grace-period=0 --wait=false`),
    ]);
  };
  /** The agent is frozen, so that the pause can't be over before its operator is killed. */
  const killLeader = async (made: Started, leader: string) => {
    const { sandbox } = made;
    const agent = await containerOf(sandboxes, sandbox);
    await containerTask(agent, 'pause');
    try {
      await requestPause(made);
      await eventually(
        'the pause to have begun',
        () => up.k(`get sandbox ${sandbox} -o jsonpath={.status.pauseTime}`),
        readyMs,
      );
      await containerTask(await containerOf(namespace, leader), 'kill --signal SIGKILL');
    } finally {
      await containerTask(agent, 'resume');
    }
    expect(await up.k(`get pod ${sandbox} -o name`)).toBe(`pod/${sandbox}`);
    await podGone(made);
  };

  it.each<readonly [string, (made: Started, leader: string) => Promise<void>]>([
    ['is deleted by force', deleteLeader],
    // A process that is killed hands its lease to none.
    ...(stateFolder === undefined ? [] : [['is killed', killLeader] as const]),
  ])(
    'archives everything when that %s',
    async (_sentence, lose) => {
      const made = await start(script(Array.from({ length: 60 }, () => 'sleep 1')));
      const before = await eventually(
        'a run that has begun',
        async () => {
          const live = await read(made.id);
          return calls(live).length >= 3 && live;
        },
        readyMs,
      );
      const holder = await up.k(
        'get lease conversation-operator -o jsonpath={.spec.holderIdentity}',
      );
      const leader = (await podsOf('operator')).find((name) => holder.includes(name)) ?? '';
      await lose(made, leader);
      const paused = await read(made.id);
      expect(await archiveOf(made.id)).toEqual({ reason: 'Complete', events: paused.length });
      expect(printsOf(paused.slice(0, before.length))).toEqual(printsOf(before));
      await inRelease(`rollout status deployment ${release}-operator --timeout=90s`);
      await closeStore();
      await resume(made);
      const live = await read(made.id);
      expect(printsOf(live.slice(0, paused.length))).toEqual(printsOf(paused));
      await up.call('DELETE', `/api/v1/app-conversations/${made.id}`);
    },
    240_000,
  );
});

describe('a setting that changes', () => {
  let kept: Started;
  let events: readonly Event[];
  const firstBytes = async (id: string) => {
    const keys = await keysOf((await recordOf(id)).metadata.uid);
    return Promise.all(keys.map((key) => store.firstByte(bucket, key)));
  };

  it('encrypts what is archived after it, and what was before stays readable', async () => {
    kept = await startAndFinish(script(['echo kept']));
    events = await read(kept.id);
    await pause(kept);
    expect(new Set(await firstBytes(kept.id))).toEqual(new Set([plain]));
    await upgrade(archiveValues({ encrypt: true }));
    expect(printsOf(await read(kept.id))).toEqual(printsOf(events));
    const other = await startAndFinish(script(['echo secret']));
    const live = await read(other.id);
    await pause(other);
    expect(printsOf(await read(other.id))).toEqual(printsOf(live));
    expect(new Set(await firstBytes(other.id))).toEqual(new Set([sealed]));
    const { uid } = (await recordOf(other.id)).metadata;
    expect((await up.call('DELETE', `/api/v1/app-conversations/${other.id}`)).status).toBe(200);
    await eventually(
      'the objects of the deleted conversation to be gone',
      async () => (await keysOf(uid)).length === 0,
      readyMs,
    );
    expect(await keysOf((await recordOf(kept.id)).metadata.uid)).not.toEqual([]);
  }, 300_000);

  it('has no history of a paused conversation without an archive', async () => {
    await upgrade(undefined);
    expect(await up.call('GET', eventsPath(kept.id, 'search'))).toMatchObject({
      status: 409,
      body: { code: 'archive-disabled' },
    });
    expect(await up.call('GET', `/api/v1/app-conversations/${kept.id}/download`)).toMatchObject({
      status: 409,
      body: { code: 'archive-disabled' },
    });
    expect(await helm(['get', 'notes', release, '--namespace', namespace])).toContain(
      'History of conversations exists only while their agents run',
    );
    await resume(kept);
    expect(printsOf(await read(kept.id))).toEqual(printsOf(events));
  }, 300_000);
});
