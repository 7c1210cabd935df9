import type { TestedMutant } from './tested-mutant.ts';

const bytes = {
  file: 'src/controllers/archive/archives.ts',
  test: 'test/unit/controllers/archive/archives.owner-bytes.test.ts',
};
const archives = {
  file: 'src/controllers/archive/reconcile.ts',
  test: 'test/unit/controllers/archive/archives.test.ts',
};
const claims = {
  file: 'src/controllers/pool/claims.ts',
  test: 'test/unit/controllers/pool/claims.shares.test.ts',
};
const masterKeys = {
  file: 'src/commands/credential-files.ts',
  test: 'test/unit/commands/credential-files.master-keys.test.ts',
};
const settings = {
  file: 'src/controllers/conversation/owner-settings.ts',
  test: 'test/unit/controllers/conversation/owner-settings.test.ts',
};

/** Mutants of a second owner and of settings that change at run time; each name is the mistake. */
export const ownerMutants: Readonly<Record<string, TestedMutant>> = {
  'the headers of a server follow its URL to another origin': {
    file: 'src/gateway/settings/settings-change.ts',
    from: 'placeOf(known) === placeOf(placeAfter);',
    to: '(known.url !== undefined) === isRemote;',
    test: 'test/unit/gateway/settings/settings-change.test.ts',
    name: 'have the headers of a server for its origin alone',
  },
  'an owner is charged with archives of the same name in another namespace': {
    ...bytes,
    from: 'const shares = [ownerShare(conversation), metadata.namespace];',
    to: 'const shares = [conversation.spec.owner, metadata.namespace];',
    name: 'the quota for every owner, without the bytes of others',
  },
  'an owner is charged with the archives of all owners': {
    ...bytes,
    from: "scope === 'Owner' ? ownerShare(conversation) : namespace",
    to: 'namespace',
    name: 'the quota for every owner, without the bytes of others',
  },
  'a limit of the namespace counts the archives of one owner': {
    ...bytes,
    from: "scope === 'Owner' ? ownerShare(conversation) : namespace",
    to: 'ownerShare(conversation)',
    name: 'the quota of the namespace, with the bytes of all',
  },
  'quotas of other namespaces limit archives': {
    ...bytes,
    from: '.filter(({ metadata }) => metadata.namespace === namespace)',
    to: '',
    name: 'are those of the quota of another namespace',
  },
  'the earlier size of an archive counts beside the present one': {
    ...bytes,
    from: 'this.forget(conversation); const bytes',
    to: 'const bytes',
    name: 'follow the archives and the quotas as they change',
  },
  'the archive of the first deleted conversation of a name stays': {
    ...archives,
    from: 'const uids = this.#deleted.get(key) ?? new Set();',
    to: 'const uids = new Set<string>();',
    name: 'removes the archives of all deleted conversations of a name',
  },
  'a quota of another namespace shortens the retention of archives': {
    ...archives,
    from: 'stores.quotas.list().filter((quota) => quota.metadata.namespace === namespace)',
    to: 'stores.quotas.list()',
    name: 'follows the retention, and a resumed conversation gets a new archive',
  },
  'a second owner makes the first one forget its claims': {
    ...claims,
    from: 'this.#recent(template, now) ?? new Map<string, OwnerStarts>();',
    to: 'new Map<string, OwnerStarts>();',
    name: 'with what each had before the other came',
  },
  'each start of an owner forgets its claims': {
    ...claims,
    from: 'owners.get(owner) ?? { lastStart: now, claims: [] }',
    to: '{ lastStart: now, claims: [] as number[] }',
    name: 'with what each had before the other came',
  },
  'claims of all templates count together': {
    ...claims,
    from: 'const owners = this.#recent(template, this.#clock.monotonic());',
    to: 'const owners = this.#recent([...this.#byTemplate.keys()][0] ?? template, this.#clock.monotonic());',
    name: 'are not charged for those of another one',
  },
  'a claim that was not executed counts': {
    ...claims,
    from: 'if (index >= 0) claims.splice(index, 1);',
    to: '',
    name: 'when a claim was not executed',
  },
  'owners of one name in two namespaces share a budget of notifications': {
    file: 'src/controllers/conversation/polling/agent-notifications.ts',
    from: 'this.#spend(ownerShare(sandbox), named.length)',
    to: 'this.#spend(sandbox.spec.owner, named.length)',
    test: 'test/unit/controllers/conversation/polling/agent-notifications.test.ts',
    name: 'has a budget for each owner',
  },
  'what waits for the clients of one owner may fill the memory of all': {
    file: 'src/gateway/stream/live-state.ts',
    from: 'return Math.min(maxBytes, totalBytes / this.#hubs.size);',
    to: 'return Math.min(maxBytes, totalBytes);',
    test: 'test/unit/gateway/stream/live-state.hubs.test.ts',
    name: 'its part of what may wait for all owners is full',
  },
  'a push beyond the maximum of an hour is passed on': {
    file: 'src/gateway/limits/host-budget.ts',
    from: 'if (use === undefined) return false;',
    to: 'if (use === undefined) return maxPerHour > 2;',
    test: 'test/unit/gateway/limits/host-budget.test.ts',
    name: 'is one of a conversation over replicas',
  },
  'a conversation that is made again keeps the key that was refused': {
    file: 'src/controllers/conversation/execution/run-control.ts',
    from: "`${uid} ${createHash('sha256')",
    to: "`${createHash('sha256')",
    test: 'test/unit/controllers/conversation/execution/run-control.key-rotation.test.ts',
    name: 'also one that is made again under the name',
  },
  'a start has the settings that an earlier start of its owner has read': {
    ...settings,
    from: 'metadata: { namespace, uid }, spec: { owner }, }: Pick',
    to: 'metadata: { namespace }, spec: { owner, owner: uid }, }: Pick',
    name: 'however soon it follows the one before',
  },
  'settings of a start are never read again': {
    ...settings,
    from: 'recent?.settings.owner === owner && clock.monotonic() - recent.atMs < freshMs',
    to: 'recent?.settings.owner === owner',
    name: 'are read once for the stages of a start',
  },
  'an earlier master key that changes alone is not read again': {
    ...masterKeys,
    from: 'now.some((key, index) => known[index]?.equals(key) !== true)',
    to: 'known[0]?.equals(now[0] ?? Buffer.of()) !== true',
    name: 'are read again when the earlier one alone is another',
  },
  'master keys in another order are the same': {
    ...masterKeys,
    from: 'now.some((key, index) => known[index]?.equals(key) !== true)',
    to: 'now.some((key) => !known.some((each) => each.equals(key)))',
    name: 'are read again when they change places',
  },
  'master keys are compared with those of the start': {
    ...masterKeys,
    from: 'known = now;',
    to: '',
    name: 'are read again each time that their file changes',
  },
  'the second loss of a master key is not reported': {
    ...masterKeys,
    from: 'problem = undefined; } catch',
    to: '} catch',
    name: 'which is logged once each time',
  },
};
