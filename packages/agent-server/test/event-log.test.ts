import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventLog, initialLog } from '../src/event-log.ts';
import { searchEvents } from '../src/conversation-routes.ts';
import { agentMessage, statusUpdate, type AgentEvent } from '../src/events.ts';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'event-log-'));
  path = join(folder, 'events.jsonl');
  await writeFile(path, initialLog([{ event: agentMessage('first') }]));
});
afterEach(() => rm(folder, { recursive: true }));

const open = () => EventLog.open(path, () => undefined);
const say = (text: string) => ({ event: agentMessage(text) });
const textsOf = (events: readonly AgentEvent[]) =>
  events.map((event) => (event.kind === 'MessageEvent' ? event.llm_message.content : []));

describe('the event log', () => {
  it('has, opened again, what was appended', async () => {
    const log = await open();
    await log.append(() => [say('zwei 🙂'), { ...say('three'), handledThrough: 2 }]);
    const again = await open();
    expect(await again.read(again.entries)).toEqual(await log.read(log.entries));
    expect(again.entries).toHaveLength(3);
    expect(again.handledThrough).toBe(2);
  });

  it('drops a last line that a crash has truncated, and continues behind it', async () => {
    await appendFile(path, '{"event":{"id":"torn"');
    const log = await open();
    expect(log.entries).toHaveLength(1);
    await log.append(() => [say('second')]);
    const again = await open();
    expect(textsOf(await again.read(again.entries))).toEqual([
      [{ type: 'text', text: 'first' }],
      [{ type: 'text', text: 'second' }],
    ]);
  });

  it('refuses a file that is broken in the middle', async () => {
    await appendFile(path, 'nonsense\n');
    await expect(open()).rejects.toThrow();
  });

  it('lets each append decide on the state that all earlier ones have left', async () => {
    const log = await open();
    const counts: number[] = [];
    await Promise.all(
      [1, 2, 3].map(() =>
        log.append(() => {
          counts.push(log.entries.length);
          return [say('x')];
        }),
      ),
    );
    expect(counts).toEqual([1, 2, 3]);
  });

  it('continues after an append whose decision has failed', async () => {
    const log = await open();
    await expect(
      log.append(() => {
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    await log.append(() => [say('second')]);
    expect(log.entries).toHaveLength(2);
  });

  it('gives each event a later time than the one before, and its parent', async () => {
    const log = await open();
    const events = await log.append(() => Array.from({ length: 20 }, () => say('x')));
    const times = events.map(({ timestamp }) => timestamp);
    expect(times).toEqual([...new Set(times)].sort());
    expect(times[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);
    expect(events[1]?.parent_id).toBe(events[0]?.id);
  });

  it('notifies subscribers after it has stored, until they leave', async () => {
    const log = await open();
    const heard: string[] = [];
    const leave = log.subscribe((events) => heard.push(...events.map(({ kind }) => kind)));
    await log.append(() => [say('x')]);
    leave();
    await log.append(() => [say('y')]);
    expect(heard).toEqual(['MessageEvent']);
    expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(4);
  });
});

describe('a search of events', () => {
  const search = { limit: 100, sort_order: 'TIMESTAMP' } as const;

  it('filters by kind, source and time', async () => {
    const log = await open();
    const [update] = await log.append(() => [{ event: statusUpdate('running') }, say('last')]);
    const found = async (filter: object) =>
      (await searchEvents(log, { ...search, ...filter })).items.length;
    expect(await found({ kind: 'MessageEvent' })).toBe(2);
    expect(await found({ kind: 'openhands.sdk.event.MessageEvent' })).toBe(2);
    expect(await found({ source: 'environment' })).toBe(1);
    expect(await found({ timestamp__gte: update?.timestamp })).toBe(2);
    expect(await found({ timestamp__lt: update?.timestamp })).toBe(1);
    expect(await found({ kind: 'Unheard' })).toBe(0);
  });

  it('goes through pages in both directions, and starts at the beginning for an unknown page', async () => {
    const log = await open();
    await log.append(() => [say('2'), say('3')]);
    const ids = log.entries.map(({ id }) => id);
    const first = await searchEvents(log, { ...search, limit: 2 });
    expect(first.items.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    expect(first.next_page_id).toBe(ids[2]);
    const second = await searchEvents(log, { ...search, limit: 2, page_id: ids[2] });
    expect([second.items.map(({ id }) => id), second.next_page_id]).toEqual([ids.slice(2), null]);
    const newest = await searchEvents(log, {
      ...search,
      limit: 1,
      sort_order: 'TIMESTAMP_DESC',
      page_id: 'unknown',
    });
    expect([newest.items[0]?.id, newest.next_page_id]).toEqual([ids[2], ids[1]]);
  });
});
