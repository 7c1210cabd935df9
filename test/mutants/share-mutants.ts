import type { TestedMutant } from './tested-mutant.ts';

const test = 'test/integration/gateway/sharing.test.ts';
const open = { file: 'src/gateway/sharing/open-shares.ts', test };
const record = { file: 'src/gateway/sharing/shared-record.ts', test };
const reads = { file: 'src/gateway/sharing/shared-reads.ts', test };
const routes = { file: 'src/gateway/sharing/share-routes.ts', test };

/** Mistakes in who reads a shared conversation, and in what they read. */
export const shareMutants: Readonly<Record<string, TestedMutant>> = {
  'a share outlives its end': {
    ...open,
    from: 'if (expiryOf(share.spec) <= clock.now()) return undefined;',
    to: '',
    name: 'is refused, as an unknown link is after its end',
  },
  'a revoked share opens as long as it is read': {
    ...open,
    from: 'atMs - known.atMs < confirmedMs',
    to: 'known.isFound',
    name: 'is refused within 5 seconds of its revocation on each',
  },
  'a read of a share that an agent answers late outlives the share': {
    ...reads,
    from: 'await currentOwner.run(anyReader, () => openShares.confirm(token, opened, response));',
    to: '',
    name: 'shows nothing that an agent answers after the share has ended',
  },
  'a share opens without the API server': {
    ...open,
    from: 'const share = found(kube.get(shares, namespace, shareNameOf(sha256)));',
    to: 'const share = found(kube.get(shares, namespace, shareNameOf(sha256))).catch(() => known?.share);',
    name: 'opens nowhere while the API server does not answer',
  },
  'a share ignores its subject': {
    ...open,
    from: 'if (!isFor(share.spec, reader)) throw this.#refused(client);',
    to: '',
    name: 'is refused, as an unknown link is where a person was named',
  },
  'a share is for groups whose names begin as its own': {
    ...open,
    from: 'reader.groups.includes(subject.name)',
    to: 'reader.groups.some((group) => group.startsWith(subject.name ?? group))',
    name: 'opens for a person in a group whose name begins as the group',
  },
  'a share opens a conversation that was made again': {
    ...open,
    file: 'src/resources/share.ts',
    from: 'metadata.uid === shared.uid &&',
    to: '',
    name: 'of a conversation that was deleted and made again under its name',
  },
  'a share outlives the key that made it': {
    ...open,
    from: 'ring.byName(issuedBy.name, issuedBy.uid) === undefined',
    to: 'false',
    name: 'once the API key that made it is disabled',
  },
  'one address may guess tokens without end': {
    ...open,
    from: 'if (known?.isFound !== true) takeFrom(this.#newTokenRates, subscriberOf(client));',
    to: '',
    name: 'asks the API server for few of the tokens that one address guesses',
  },
  'readers of a share see the whole record of the owner': {
    ...record,
    from: '...recordSchema.parse(record),',
    to: '...record,',
    name: 'is shown without what opens its agent',
  },
  'readers of a share see every event': {
    ...record,
    from: 'if (isShown(event)) return event;',
    to: 'return event;',
    name: 'without settings in its events',
  },
  'readers of a share see names of other conversations': {
    ...record,
    from: "entry.kind === 'stage' || entry.kind === 'step'",
    to: 'true',
    name: 'shows the life without other conversations',
  },
  'readers of a share read every file of the sandbox': {
    ...reads,
    from: 'if (folder === undefined || !isIn(folder, named)) throw refusal;',
    to: 'if (folder === undefined) throw refusal;',
    name: 'does not show /proc/self/environ',
  },
  'readers of a share follow links out of the folder': {
    ...reads,
    from: 'if (!(await source.isVisibleIn(posix.normalize(folder), named))) throw refusal;',
    to: '',
    name: 'does not show a file that a link leads out to',
  },
  'an owner revokes the shares of others': {
    ...routes,
    from: "if (share?.spec.owner !== call.owner || !isShareOf(share, conversation)) throw notFound('share');",
    to: "if (share === undefined) throw notFound('share');",
    name: 'is revoked with its own conversation alone',
  },
};
