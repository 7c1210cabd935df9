import { OwnerBytes } from '../../../../src/controllers/archive/archives.ts';
import type { ConversationQuota } from '../../../../src/resources/conversation-quota.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { aConversation, aQuota } from '../../../support/builders.ts';

/** A conversation of an owner, with an archive of this size. */
const archived = (name: string, bytes: number, owner = 'alice', namespace = 'default') => {
  const conversation = aConversation({
    name,
    spec: { owner },
    status: { archive: { events: 1, bytes } },
  });
  const metadata = { ...conversation.metadata, namespace, uid: `${namespace}/${name}` };
  return { ...conversation, metadata };
};
const quotaIn = (namespace: string, name: string, spec: Parameters<typeof aQuota>[1]) => {
  const quota = aQuota(name, spec);
  return { ...quota, metadata: { ...quota.metadata, namespace } };
};

function bytesUnder(...quotas: readonly ConversationQuota[]) {
  const store = new IndexedStore<ConversationQuota>();
  for (const quota of quotas) store.set(quota);
  return { store, bytes: new OwnerBytes({ quotas: store }) };
}

describe('the bytes that quotas leave to an archive', () => {
  const [everyOwner, ofBob, ofAll, elsewhere] = [
    quotaIn('default', 'every-owner', { maxArchivedBytes: 100 }),
    quotaIn('default', 'bob', { owner: 'bob', maxArchivedBytes: 50 }),
    quotaIn('default', 'all', { scope: 'Namespace', maxArchivedBytes: 150 }),
    quotaIn('elsewhere', 'every-owner', { maxArchivedBytes: 10 }),
  ];
  const stored = [
    archived('a1', 30),
    archived('a2', 40),
    archived('b', 20, 'bob'),
    archived('a', 7, 'alice', 'elsewhere'),
  ];

  it.each<[string, readonly ConversationQuota[], Parameters<typeof archived>, number]>([
    ['no quota', [], ['a1', 30], Infinity],
    ['the quota for every owner, without the bytes of others', [everyOwner], ['a1', 30], 30],
    ['the quota for every owner', [everyOwner], ['c', 0, 'carol'], 100],
    ["another owner's quota", [ofBob], ['a1', 30], Infinity],
    ["the owner's quota before that for every owner", [everyOwner, ofBob], ['b', 20, 'bob'], 30],
    ['the quota of the namespace, with the bytes of all', [ofAll], ['c', 0, 'carol'], 60],
    ['the lower one of both', [everyOwner, ofAll], ['a1', 30], 30],
    ['the quota of another namespace', [elsewhere], ['a1', 30], Infinity],
    [
      'the quota of its namespace, for an owner who has more in another one',
      [everyOwner, elsewhere],
      ['a', 7, 'alice', 'elsewhere'],
      3,
    ],
  ])('are those of %s', (_case, quotas, wanted, expected) => {
    const { bytes } = bytesUnder(...quotas);
    for (const conversation of stored) bytes.observe(conversation);
    expect(bytes.leftFor(archived(...wanted))).toBe(expected);
  });

  it('follow the archives and the quotas as they change', () => {
    const { bytes, store } = bytesUnder(everyOwner);
    const left = () => bytes.leftFor(archived('a1', 0));
    for (const conversation of stored) bytes.observe(conversation);
    bytes.observe(archived('a1', 50));
    expect(left()).toBe(10);
    bytes.observe(archived('a2', 0));
    expect(left()).toBe(50);
    bytes.forget(archived('a1', 50));
    bytes.forget(archived('a1', 50));
    expect(left()).toBe(100);
    bytes.observe(archived('a1', 300));
    expect(left()).toBe(0);
    store.set(quotaIn('default', 'every-owner', { maxArchivedBytes: 1_000 }));
    expect(left()).toBe(700);
  });
});
