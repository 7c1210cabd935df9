import { EventLog, type ReadPage } from '../../../src/web/event-log.ts';
import { idOf } from '../../../src/sentences/entries.ts';

const pageSize = 3;

/** A service that pages as an agent does, or as an archive. */
function aService(initial: number) {
  const state = {
    ids: Array.from({ length: initial }, (_, index) => `e${index}`),
    isPaused: false,
  };
  const asked: (string | undefined)[] = [];
  const page: ReadPage = (from, order) => {
    asked.push(from);
    const { ids, isPaused } = state;
    const ordered = order === 'oldest first' ? [...ids] : ids.toReversed();
    const start = Math.max(ordered.indexOf(from?.split('@')[0] ?? ''), 0);
    const next = ordered[start + pageSize];
    const id = isPaused && next !== undefined ? `${next}@${ids.indexOf(next)}` : next;
    return Promise.resolve({
      items: ordered.slice(start, start + pageSize).map((name) => ({ id: name })),
      next_page_id: id ?? null,
    });
  };
  return { state, asked, page };
}
const add = (ids: string[], count: number) => {
  for (let left = count; left > 0; left--) ids.push(`e${ids.length}`);
};
const idsIn = (log: EventLog) => log.events.value.map(idOf);
const upTo = (first: number, last: number) =>
  Array.from({ length: last - first }, (_, index) => `e${first + index}`);

describe('the events of a page', () => {
  it('stay, each once, while the sandbox is paused and resumed between the reads', async () => {
    const { state, page } = aService(8);
    const log = new EventLog(page);
    await log.refresh();
    expect(idsIn(log)).toEqual(upTo(5, 8));
    state.isPaused = true;
    await log.refresh();
    expect([idsIn(log), log.older.value]).toEqual([upTo(5, 8), 'e4']);
    await log.readOlder();
    expect([idsIn(log), log.older.value]).toEqual([upTo(2, 8), 'e1@1']);
    state.isPaused = false;
    add(state.ids, 5);
    await log.refresh();
    expect(idsIn(log)).toEqual(upTo(2, 13));
    await log.readOlder();
    expect([idsIn(log), log.older.value]).toEqual([upTo(0, 13), null]);
  });

  it('stay where the archive has not got the newest of them yet', async () => {
    const { state, page } = aService(6);
    const log = new EventLog(page);
    await log.refresh();
    state.isPaused = true;
    state.ids.pop();
    await log.refresh();
    expect(idsIn(log)).toEqual(upTo(3, 6));
  });

  it('stay after a failure', async () => {
    const { page } = aService(6);
    let isFailing = false;
    const log = new EventLog((from) =>
      isFailing ? Promise.reject(new Error('archive-disabled')) : page(from),
    );
    await log.refresh();
    isFailing = true;
    await expect(log.refresh()).rejects.toThrow('archive-disabled');
    await expect(log.readOlder()).rejects.toThrow('archive-disabled');
    expect([idsIn(log), log.older.value]).toEqual([upTo(3, 6), 'e2']);
  });

  it('are replaced where too many have come since', async () => {
    const { state, page, asked } = aService(4);
    const log = new EventLog(page);
    await log.refresh();
    add(state.ids, 40);
    await log.refresh();
    expect(idsIn(log)).toEqual(upTo(29, 44));
    expect(asked).toHaveLength(1 + 5);
    expect(log.older.value).toBe('e28');
  });

  const excerptOf = (log: EventLog) => log.excerpt.value?.events.map(idOf);

  it('are apart from the first ones until these reach them', async () => {
    const { state, page } = aService(10);
    const log = new EventLog(page);
    await log.refresh();
    await log.readFirst();
    expect([excerptOf(log), idsIn(log)]).toEqual([upTo(0, 3), upTo(7, 10)]);
    add(state.ids, 1);
    await log.refresh();
    await log.readNewer();
    expect([excerptOf(log), idsIn(log)]).toEqual([upTo(0, 6), upTo(7, 11)]);
    await log.readNewer();
    expect([excerptOf(log), idsIn(log), log.older.value]).toEqual([undefined, upTo(0, 11), null]);
  });

  it('have one of them with its surroundings, each once, and older ones before', async () => {
    const { page } = aService(20);
    const log = new EventLog(page);
    await log.refresh();
    await log.readAround('e9');
    expect([excerptOf(log), log.runOf('e9')?.length]).toEqual([upTo(7, 12), 5]);
    await log.readOlder();
    expect([excerptOf(log), log.older.value]).toEqual([upTo(4, 12), 'e16']);
    // Another excerpt replaces it, and one that reaches the latest events joins them.
    await log.readAround('e15');
    expect([excerptOf(log), idsIn(log)]).toEqual([undefined, upTo(13, 20)]);
    expect(log.older.value).toBe('e12');
    await log.readAround('e18');
    expect([idsIn(log), log.older.value]).toEqual([upTo(13, 20), 'e12']);
  });

  it('are read again for an event behind them', async () => {
    const { state, page } = aService(20);
    const log = new EventLog(page);
    await log.refresh();
    add(state.ids, 3);
    await log.readAround('e22');
    expect(log.runOf('e22')?.map(idOf)).toContain('e22');
  });

  it('stay apart while the archive ends before them', async () => {
    const { state, page } = aService(9);
    const log = new EventLog(page);
    await log.refresh();
    const all = state.ids.splice(5);
    await log.readFirst();
    await log.readNewer();
    expect([excerptOf(log), idsIn(log)]).toEqual([upTo(0, 5), upTo(6, 9)]);
    state.ids.push(...all);
    await log.readNewer();
    expect([excerptOf(log), idsIn(log)]).toEqual([undefined, upTo(0, 9)]);
  });

  it('have an excerpt once only, where a replacement reaches it', async () => {
    const { state, page } = aService(30);
    const log = new EventLog(page);
    await log.refresh();
    await log.readAround('e15');
    state.ids.splice(20);
    await log.refresh();
    expect([excerptOf(log), idsIn(log)]).toEqual([undefined, upTo(5, 20)]);
  });
});
