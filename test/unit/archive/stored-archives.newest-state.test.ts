import { SandboxKeys } from '../../../src/agent/keys.ts';
import { ArchiveError, keyOf } from '../../../src/archive/layout.ts';
import { createCodec } from '../../../src/archive/codec.ts';
import { extendArchive } from '../../../src/archive/extend.ts';
import { newestState } from '../../../src/archive/stored-archives.ts';
import { agentLog, eventJson, eventOf } from '../../support/archive/agent-log.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'agents', uid: 'c0ffee' };
const codec = createCodec({ keys: new SandboxKeys([Buffer.alloc(32, 7)]), encrypt: false });
const { signal } = new AbortController();
const before = '2026-01-01T00:00:00Z';
const expired = '2026-01-02T00:00:00Z';
const after = '2026-01-03T00:00:00Z';

/** A store with the head of an archive for each salt, of as many events as given. */
async function storeWith(heads: readonly { readonly events: number; readonly salt?: string }[]) {
  const memory = memoryStore();
  for (const { events, salt } of heads) {
    const log = agentLog();
    for (let index = 0; index < events; index++) log.events.push(eventOf(eventJson(`e${index}`)));
    await extendArchive(address, undefined, {
      store: memory.store,
      codec,
      source: log.source,
      signal,
      salt,
      installation: 'here',
      maxBytes: Infinity,
      maxEvents: Infinity,
    });
  }
  return memory;
}

describe('the newest state in the store', () => {
  it.each<[string, Parameters<typeof storeWith>[0], string | undefined, number | undefined]>([
    ['is that with most events', [{ events: 3 }, { events: 5 }], undefined, 5],
    ['is none where nothing is stored', [], undefined, undefined],
    ['is none of an archive that has expired', [{ events: 3 }], expired, undefined],
    [
      'is none of an earlier archive that has expired',
      [{ events: 9, salt: before }],
      expired,
      undefined,
    ],
    [
      'is that of the archive after the expiry',
      [{ events: 9 }, { events: 3, salt: expired }],
      expired,
      3,
    ],
    ['is that of a later archive than the status knows', [{ events: 3, salt: after }], expired, 3],
  ])('%s', async (_case, heads, expiredTime, events) => {
    const { store } = await storeWith(heads);
    const state = await newestState({ store, codec }, address, expiredTime);
    expect(state === undefined ? undefined : Number(state.head.slice(0, 10))).toBe(events);
  });

  it('has the newest snapshot of files, unless an archive of the conversation has expired', async () => {
    const { store } = await storeWith([{ events: 3, salt: expired }]);
    const snapshot = (position: number) =>
      `${String(position).padStart(10, '0')}-${'a'.repeat(24)}`;
    for (const position of [1, 3]) {
      const key = keyOf(address, 'f', snapshot(position));
      await store.put(key, Buffer.from('x'));
    }
    const filesOf = async (expiredTime: string | undefined) =>
      (await newestState({ store, codec }, address, expiredTime))?.files;
    expect(await filesOf(undefined)).toBe(snapshot(3));
    expect(await filesOf(expired)).toBeUndefined();
  });

  it.each([
    ['the newest head can not be read', [{ events: 3 }], 9],
    ['an older head can not be read, and the newest one has expired', [{ events: 3 }], 1],
  ])('is not known where %s', async (_case, heads, position) => {
    const { store } = await storeWith(heads);
    const damaged = `${String(position).padStart(10, '0')}-${'a'.repeat(24)}`;
    await store.put(keyOf(address, 'h', damaged), Buffer.from('damaged'));
    await expect(newestState({ store, codec }, address, expired)).rejects.toThrow(ArchiveError);
  });
});
