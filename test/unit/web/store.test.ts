import { groups } from '../../../src/sentences/groups.ts';
import { Store } from '../../../src/web/store.ts';
import { aConversation, aQuota, aSandbox, aTask, idOf } from '../../support/page-records.ts';

const shown = (store: Store): unknown =>
  Object.fromEntries(
    groups
      .map((group) => [group, store.index.rowsOf(group).map(({ id }) => Number(`0x${id}`))])
      .filter(([, ids]) => ids?.length !== 0),
  );

function filled(count: number): Store {
  const store = new Store();
  store.beginSnapshot();
  for (let number = 1; number <= count; number++) store.putConversation(aConversation(number));
  store.endSnapshot();
  store.settle();
  return store;
}

it.each([[3], [500]])('lists %i conversations, newest first', (count) => {
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  expect(shown(filled(count))).toEqual({ working: numbers });
});

it('joins a conversation with its sandbox and its start task in any order', () => {
  const store = new Store();
  store.putSandbox(aSandbox(1, { status_detail: 'first' }));
  store.putTask(aTask(1));
  store.putConversation(aConversation(1));
  store.putSandbox(aSandbox(1, { status_detail: 'second' }));
  const facts = store.rows.get(idOf(1))?.facts;
  expect(facts?.task?.status).toBe('WORKING');
  expect(facts?.sandbox?.status_detail).toBe('second');
  expect(store.rows.size).toBe(1);
});

it('moves a changed row to its group, and removes a deleted one', () => {
  const store = filled(3);
  store.putConversation(aConversation(2, { execution_status: 'finished' }));
  store.remove({ kind: 'conversation', id: idOf(3) });
  store.settle();
  expect(shown(store)).toEqual({ working: [1], finished: [2] });
});

it('moves no row while the list is held, and all of them at the release', () => {
  const store = filled(3);
  store.index.hold();
  store.putConversation(aConversation(2, { execution_status: 'finished' }));
  store.putConversation(aConversation(9));
  store.remove({ kind: 'conversation', id: idOf(3) });
  store.settle();
  expect(shown(store)).toEqual({ working: [1, 2, 3] });
  expect(store.index.waiting.value).toBe(3);
  expect(store.rows.get(idOf(2))?.mark.value).toBe('finished');
  store.index.release();
  expect(shown(store)).toEqual({ working: [1, 9], finished: [2] });
  expect(store.index.waiting.value).toBe(0);
});

it('forgets a move that was reverted while the list was held', () => {
  const store = filled(1);
  store.index.hold();
  store.putConversation(aConversation(1, { execution_status: 'finished' }));
  store.settle();
  store.putConversation(aConversation(1));
  store.settle();
  expect(store.index.waiting.value).toBe(0);
  expect(store.rows.get(idOf(1))?.mark.value).toBeUndefined();
});

it('removes with a snapshot what it does not have', () => {
  const store = filled(3);
  store.quota.value = aQuota();
  store.beginSnapshot();
  store.putConversation(aConversation(2));
  store.endSnapshot();
  store.settle();
  expect(shown(store)).toEqual({ working: [2] });
});

it('keeps a start without its conversation until its task is removed', () => {
  const store = new Store();
  const task = aTask(7);
  store.putTask(task);
  store.settle();
  expect(shown(store)).toEqual({ working: [7] });
  store.remove({ kind: 'start_task', id: task.id });
  store.settle();
  expect(shown(store)).toEqual({});
});

describe('a row whose sandbox is replaced', () => {
  const detailOf = (store: Store) => store.rows.get(idOf(1))?.facts.sandbox?.status_detail;
  /** A conversation in its first sandbox, whose record says so. */
  function inFirst(): Store {
    const store = new Store();
    store.putSandbox(aSandbox(1, { status_detail: 'first' }));
    store.putConversation(aConversation(1));
    expect(detailOf(store)).toBe('first');
    return store;
  }

  it('shows nothing of the first one, before and after the record of the other one', () => {
    const store = inFirst();
    store.putConversation(aConversation(1, { sandbox_id: 'sbx-2' }));
    expect(detailOf(store)).toBeUndefined();
    store.putSandbox(aSandbox(1, { status_detail: 'late news of the first' }));
    expect(detailOf(store)).toBeUndefined();
    store.putSandbox(aSandbox(2, { status_detail: 'second' }));
    expect(detailOf(store)).toBe('second');
    store.remove({ kind: 'sandbox', id: 'sbx-1' });
    expect(detailOf(store)).toBe('second');
  });

  it.each<[string, (store: Store) => void]>([
    ['is removed', (store) => store.remove({ kind: 'sandbox', id: 'sbx-1' })],
    [
      'is not in a snapshot',
      (store) => {
        store.beginSnapshot();
        store.putConversation(aConversation(1));
        store.endSnapshot();
      },
    ],
  ])('shows one that is made again under its name only after the first one %s', (_how, removed) => {
    const store = inFirst();
    removed(store);
    expect(detailOf(store)).toBeUndefined();
    store.putConversation(aConversation(1, { title: 'Renamed' }));
    expect(detailOf(store)).toBeUndefined();
    store.putSandbox(aSandbox(1, { status_detail: 'again' }));
    expect(detailOf(store)).toBe('again');
  });

  it('forgets what was done to the first one, also where that has failed', () => {
    const store = inFirst();
    const row = store.rows.get(idOf(1));
    if (row === undefined) throw new Error('the row is there');
    row.action.value = { label: 'Pausing', problem: 'The agent does not answer.' };
    store.putConversation(aConversation(1, { title: 'Renamed' }));
    expect(row.action.value).toBeDefined();
    store.putConversation(aConversation(1, { sandbox_id: 'sbx-2' }));
    expect(row.action.value).toBeUndefined();
  });
});

it('lists sandboxes without a conversation, once everything has arrived', () => {
  const store = new Store();
  const bare = () => store.bareSandboxes.value.map(({ id }) => id);
  store.beginSnapshot();
  for (const number of [1, 2, 3]) store.putSandbox(aSandbox(number));
  store.putSandbox(aSandbox(4, { id: `sbx-${idOf(4)}` }));
  expect(bare()).toEqual([]);
  store.putConversation(aConversation(1));
  // A start whose sandbox its records do not name yet.
  store.putTask(aTask(4));
  store.endSnapshot();
  expect(bare()).toEqual(['sbx-2', 'sbx-3']);
  store.remove({ kind: 'sandbox', id: 'sbx-3' });
  store.putConversation(aConversation(2));
  expect(bare()).toEqual([]);
  // The sandbox of a deleted conversation is deleted with it.
  store.remove({ kind: 'conversation', id: idOf(1) });
  expect(bare()).toEqual([]);
  store.remove({ kind: 'sandbox', id: 'sbx-1' });
  store.putSandbox(aSandbox(1));
  expect(bare()).toEqual(['sbx-1']);
});
