import type { Batch, StreamLimits } from '../../../../src/gateway/stream/stream-events.ts';
import { aConversation, aQuota, aSandbox, noon } from '../../../support/builders.ts';
import { StreamScene } from '../../../support/gateway/stream-scene.ts';

const flushMs = 260;
const minute = 60_000;

describe('the changes of a stream', () => {
  const working = (name: string, spec: object = {}) =>
    aConversation({ name, spec, status: { start: { status: 'WORKING', transitions: [] } } });
  const ready = (name: string, status: object = {}, spec: object = {}) =>
    aConversation({
      name,
      spec,
      status: { ...status, start: { status: 'READY', transitions: [] } },
    });
  const deleting = <T extends { readonly metadata: object }>(object: T): T => ({
    ...object,
    metadata: { ...object.metadata, deletionTimestamp: noon },
  });
  /** The kinds of events except those of the quota, which follow the time. */
  const kinds = (events: readonly { readonly event: string }[]) =>
    events.map(({ event }) => event).filter((event) => event !== 'quota');

  it.each<[string, (scene: StreamScene) => void, readonly string[]]>([
    [
      'a start',
      ({ caches }) => caches.conversations.set(working('new')),
      ['conversation', 'start_task'],
    ],
    [
      'a conversation that is READY',
      ({ caches }) => caches.conversations.set(ready('new')),
      ['conversation'],
    ],
    [
      'the end of a start',
      ({ caches }) => caches.conversations.set(ready('start')),
      ['conversation', 'start_task'],
    ],
    [
      'a deletion',
      ({ caches }) => caches.conversations.delete(ready('ready')),
      ['removed', 'conversation'],
    ],
    [
      'a deletion that is under way',
      ({ caches }) => caches.conversations.set(deleting(ready('ready'))),
      ['removed'],
    ],
    [
      'the deletion of a start',
      ({ caches }) => caches.conversations.delete(working('start')),
      ['removed', 'removed'],
    ],
    [
      'a child',
      ({ caches }) => caches.conversations.set(ready('new', {}, { parent: 'ready' })),
      ['conversation', 'conversation'],
    ],
    [
      'the deletion of a child',
      ({ caches }) => caches.conversations.delete(ready('child')),
      ['removed', 'conversation'],
    ],
    [
      'a pause',
      ({ caches }) =>
        caches.sandboxes.set(aSandbox({ name: 'sbx', replicas: 0, status: { phase: 'PAUSED' } })),
      ['sandbox', 'conversation'],
    ],
    [
      'the deletion of a sandbox',
      ({ caches }) => caches.sandboxes.delete(aSandbox({ name: 'sbx' })),
      ['removed', 'conversation'],
    ],
    [
      'a warm sandbox that gets an owner',
      ({ caches }) => caches.sandboxes.set(aSandbox({ name: 'spare' })),
      ['sandbox'],
    ],
    [
      'a state that no record shows',
      ({ caches }) => caches.conversations.set(ready('ready', { agentEpoch: 7 })),
      [],
    ],
    [
      'several changes of one object',
      ({ caches }) => {
        caches.conversations.set(ready('ready', { title: 'One' }));
        caches.conversations.set(ready('ready', { title: 'Another' }));
      },
      ['conversation'],
    ],
    [
      'a change that is taken back',
      ({ caches }) => {
        caches.conversations.set(ready('ready', { title: 'One' }));
        caches.conversations.set(ready('ready'));
      },
      [],
    ],
    [
      'a conversation that came and went',
      ({ caches }) => {
        caches.conversations.set(ready('new'));
        caches.conversations.delete(ready('new'));
      },
      [],
    ],
    [
      'a conversation of another owner',
      ({ caches }) => caches.conversations.set(working('new', { owner: 'bob' })),
      [],
    ],
    [
      'a sandbox of another owner',
      ({ caches }) => caches.sandboxes.set(aSandbox({ name: 'new', owner: 'bob' })),
      [],
    ],
    [
      'a child of another owner',
      ({ caches }) => caches.conversations.set(working('new', { owner: 'bob', parent: 'ready' })),
      [],
    ],
  ])('%s', async (_case, change, expected) => {
    const scene = new StreamScene();
    const { caches } = scene;
    caches.conversations.set(ready('ready', { sandboxName: 'sbx' }));
    caches.conversations.set(ready('ready'));
    caches.conversations.set(ready('in-sandbox', { sandboxName: 'sbx' }));
    caches.conversations.set(ready('child', {}, { parent: 'ready' }));
    caches.conversations.set(working('start'));
    caches.sandboxes.set(aSandbox({ name: 'sbx' }));
    caches.sandboxes.set(aSandbox({ name: 'spare', owner: '' }));
    const { state, response } = scene.connect('alice');
    const other = scene.connect('alice');
    await scene.pass(flushMs);
    expect(kinds(state.events)).toEqual(['snapshot']);
    change(scene);
    expect(kinds(state.events)).toEqual(['snapshot']);
    await scene.pass(flushMs);
    expect(kinds(state.events).slice(1)).toEqual(expected);
    await scene.pass(minute);
    expect(kinds(state.events).slice(1)).toEqual(expected);
    expect(state.contents).toEqual(scene.contentsOf('alice'));
    expect(other.state.events).toEqual(state.events);
    response.destroy();
    other.response.destroy();
    scene.close();
  });

  it('present each record once for all streams of an owner', async () => {
    const scene = new StreamScene();
    const streams = Array.from({ length: 20 }, () => scene.connect('alice'));
    await scene.pass(flushMs);
    const sent: Batch[] = [];
    const hub = scene.hubs.join('alice', { send: (batch) => sent.push(batch) });
    scene.caches.conversations.set(ready('new'));
    await scene.pass(flushMs);
    expect([hub.size, sent.length]).toEqual([21, 1]);
    for (const { state } of streams) expect(state.conversations.size).toBe(1);
    scene.close();
  });

  it.each<[string, (scene: StreamScene) => void, (scene: StreamScene) => void]>([
    [
      'is changed and changed back',
      ({ caches }) => caches.conversations.set(ready('ready', { title: 'One' })),
      ({ caches }) => caches.conversations.set(ready('ready')),
    ],
    [
      'is deleted and made again',
      ({ caches }) => caches.conversations.delete(ready('ready')),
      ({ caches }) => caches.conversations.set(ready('ready')),
    ],
  ])(
    'reach a client whose snapshot comes while an object %s',
    async (_case, change, changeBack) => {
      const scene = new StreamScene();
      scene.caches.conversations.set(ready('ready'));
      const first = scene.connect('alice');
      await scene.pass(flushMs);
      change(scene);
      const second = scene.connect('alice');
      await scene.pass(1);
      expect(second.state.contents).not.toEqual(first.state.contents);
      changeBack(scene);
      await scene.pass(minute);
      expect(second.state.contents).toEqual(scene.contentsOf('alice'));
      expect(first.state.contents).toEqual(scene.contentsOf('alice'));
      scene.close();
    },
  );

  it('send the quota at most once a second, and only a different one', async () => {
    const scene = new StreamScene();
    const { state } = scene.connect('alice');
    await scene.pass(1_000);
    const quotas = () => state.events.filter(({ event }) => event === 'quota').length;
    for (let index = 0; index < 40; index++) {
      scene.caches.conversations.set(ready(`new-${index}`));
      await scene.pass(50);
    }
    await scene.pass(1_000);
    expect(quotas()).toBeGreaterThanOrEqual(2);
    expect(quotas()).toBeLessThanOrEqual(4);
    const sent = quotas();
    scene.caches.quotas.set(aQuota('of-bob', { owner: 'bob' }));
    await scene.pass(minute);
    expect(quotas()).toBe(sent);
    scene.caches.quotas.set(aQuota('default', { limit: 3 }));
    await scene.pass(minute);
    expect(quotas()).toBe(sent + 1);
    scene.close();
  });

  it('send the quota when another owner takes room that all owners share', async () => {
    const scene = new StreamScene();
    scene.caches.quotas.set(
      aQuota('all', { scope: 'Namespace', limit: 100, maxConversations: 10 }),
    );
    const { state } = scene.connect('alice');
    await scene.pass(2_000);
    scene.caches.conversations.set(ready('new', {}, { owner: 'bob' }));
    await scene.pass(2_000);
    expect(state.quota).toMatchObject({ caps: [{ of: 'conversations', current: 1 }] });
    expect(state.conversations.size).toBe(0);
    scene.close();
  });
});

it('a client that connects again gets a snapshot, also after a part of one', async () => {
  const scene = new StreamScene({ recordsPerTurn: 1 });
  for (let index = 0; index < 10; index++)
    scene.caches.conversations.set(aConversation({ name: `c-${index}` }));
  const { state, response } = scene.connect('alice');
  for (let turn = 0; state.events.length < 2; turn++) {
    expect(turn).toBeLessThan(100);
    await scene.clock.settle();
  }
  response.destroy();
  expect(state.quota).toBeUndefined();
  scene.caches.conversations.delete(aConversation({ name: 'c-3' }));
  scene.connect('alice', state);
  await scene.pass(flushMs);
  expect(state.snapshots).toBe(2);
  expect(state.contents).toEqual(scene.contentsOf('alice'));
  scene.close();
});

describe('a stream', () => {
  it('sends a comment every 15 seconds', async () => {
    const scene = new StreamScene();
    const { state } = scene.connect('alice');
    await scene.pass(14_999);
    expect(state.comments).toBe(0);
    await scene.pass(30_002);
    expect(state.comments).toBe(3);
    scene.close();
  });

  it('sends the newest conversations first, and at most as many records in an event as allowed', async () => {
    const scene = new StreamScene({ recordsPerTurn: 4 });
    const created = (second: number) => {
      const { metadata, ...rest } = aConversation({ name: `c-${second}` });
      const creationTimestamp = `2026-03-01T12:00:0${second}Z`;
      return { ...rest, metadata: { ...metadata, creationTimestamp } };
    };
    for (const second of [3, 1, 5, 2, 4]) scene.caches.conversations.set(created(second));
    scene.caches.sandboxes.set(aSandbox());
    const { state } = scene.connect('alice');
    await scene.pass(flushMs);
    const parts = state.events.map(({ data }) => data);
    const time = (second: number) => ({ created_at: `2026-03-01T12:00:0${second}.000000Z` });
    const part = (conversations: number[], starts: number[], sandboxes: string[]) => ({
      conversations: conversations.map(time),
      start_tasks: starts.map(time),
      sandboxes: sandboxes.map((id) => ({ id })),
    });
    expect(parts).toMatchObject([
      { ...part([5, 4], [5, 4], []), quota: null, last: false },
      { ...part([3, 2], [3, 2], []), quota: null, last: false },
      { ...part([1], [1], ['sbx-1']), quota: { stored: { conversations: 5 } }, last: true },
    ]);
    scene.close();
  });

  it('is closed after an hour, and whatever the stream held is released', async () => {
    const scene = new StreamScene();
    const { state, stream } = scene.connect('alice');
    await scene.pass(60 * minute - 1);
    expect(state.closed).toBeUndefined();
    await scene.pass(1);
    expect(state.closed).toBe('max-age');
    expect(stream.isOver).toBe(true);
    await scene.pass(minute);
    expect(scene.hubs.size).toBe(0);
    scene.close();
    expect(scene.clock.timers).toBe(0);
  });

  it('is closed when its client reads nothing for 30 seconds', async () => {
    const scene = new StreamScene();
    for (let index = 0; index < 20; index++)
      scene.caches.conversations.set(aConversation({ name: `c-${index}` }));
    const { stream, response } = scene.connect('alice');
    response.read(false);
    await scene.pass(29_000);
    expect(stream.isOver).toBe(false);
    await scene.pass(2_000);
    expect(stream.isOver).toBe(true);
    await scene.pass(minute);
    expect(response.destroyed).toBe(true);
    scene.close();
  });

  it.each<[string, Partial<StreamLimits>]>([
    ['too much waits for its client', { maxBytes: 4_000 }],
    ['its part of what may wait for all owners is full', { totalBytes: 20_000 }],
  ])('is closed when %s, and no other one is', async (_case, limits) => {
    const scene = new StreamScene(limits);
    scene.connect('bob');
    const [slow, other] = [scene.connect('alice'), scene.connect('alice')];
    await scene.pass(flushMs);
    slow.response.read(false);
    for (let index = 0; index < 10; index++) {
      scene.caches.conversations.set(aConversation({ name: `c-${index}` }));
      await scene.pass(flushMs);
    }
    expect({ slow: slow.stream.isOver, other: other.stream.isOver }).toEqual({
      slow: true,
      other: false,
    });
    expect(other.state.conversations.size).toBe(10);
    slow.response.read(true);
    await scene.pass(flushMs);
    expect(slow.state.closed).toBe('slow-reader');
    scene.close();
  });
});
