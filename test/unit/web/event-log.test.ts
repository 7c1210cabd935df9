import { EventLog, type EventPage } from '../../../src/web/event-log.ts';
import { idOf } from '../../../src/web/entries.ts';

const pageSize = 3;

/** A service that pages as an agent does, or as an archive. */
function aService(initial: number) {
  const state = {
    ids: Array.from({ length: initial }, (_, index) => `e${index}`),
    isPaused: false,
  };
  const asked: (string | undefined)[] = [];
  const page = (from: string | undefined): Promise<EventPage> => {
    asked.push(from);
    const { ids, isPaused } = state;
    const ordered = ids.toReversed();
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
});
