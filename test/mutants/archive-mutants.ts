import type { TestedMutant } from './tested-mutant.ts';

const test = 'test/unit/controllers/archive/archives.test.ts';
const installation = { file: 'src/archive/installation.ts', test };
const sweep = { file: 'src/controllers/archive/sweep.ts', test };
const archiver = { file: 'src/controllers/archive/archiver.ts', test };
const newest = {
  file: 'src/archive/stored-archives.ts',
  test: 'test/unit/archive/stored-archives.newest-state.test.ts',
};

const find = { file: 'src/archive/find-text.ts', test: 'test/unit/archive/find-text.test.ts' };
const textSearch = 'test/integration/gateway/text-search.test.ts';

/** Mistakes about copies of a cluster, restored backups and searches. Each name is the mistake. */
export const archiveMutants: Readonly<Record<string, TestedMutant>> = {
  'a sweep takes an archive of another namespace for its own': {
    ...installation,
    from: ' && writer.namespaceUid === here.namespaceUid',
    to: '',
    name: 'of an archive of another namespace of this name',
  },
  'a sweep deletes what has just become an orphan': {
    ...sweep,
    from: 'const orphanedForMs = 86_400_000;',
    to: 'const orphanedForMs = 0;',
    name: 'of an archive whose conversation is gone',
  },
  'the day of an orphan continues while its conversation exists': {
    ...sweep,
    from: 'this.#orphans.forget(name);',
    to: '',
    name: 'counts the day anew',
  },
  'a sweep deletes orphans however many there are': {
    ...sweep,
    from: 'if (isStopped) return;',
    to: '',
    name: 'deletes nothing where more than a tenth',
  },
  'a conversation that a list lacks loses its archive': {
    file: 'src/controllers/archive/reconcile.ts',
    test,
    from: "if (finality === 'assumed') return;",
    to: '',
    name: 'is left to the sweep where a list lacks the conversation',
  },
  'the archive of a restored status begins anew': {
    ...archiver,
    from: 'return newestState(this.#options.archive, { namespace, uid }, expiredTime, signal);',
    to: 'return newestState(this.#options.archive, { namespace, uid: `${uid}-` }, expiredTime, signal);',
    name: 'a status of a backup of the cluster',
  },
  'the head that a restored status continues is not stored in it': {
    ...archiver,
    from: 'extension: { head = base?.head, events, bytes },',
    to: 'extension: { head, events, bytes },',
    name: 'without a head: the archive continues',
  },
  'an expired archive is found again': {
    ...newest,
    from: 'return salt >= expiredTime;',
    to: 'return salt <= expiredTime || salt >= expiredTime;',
    name: 'is none of an archive that has expired',
  },
  'a head that can not be read is taken for an absent one': {
    file: newest.file,
    from: "const { salt = '' } = unpackHead(codec, address, head, body).manifest;",
    to: "let salt = ''; try { ({ salt = '' } = unpackHead(codec, address, head, body).manifest); } catch { return false; }",
    test,
    name: 'nothing is deleted or begun anew',
  },
  'a person who prunes deletes what another installation may have written': {
    file: 'src/commands/archive-prune.ts',
    from: "if (origin === 'foreign') return isNamed && foreign ? 'delete' : 'keep';",
    to: '',
    test: 'test/unit/commands/archive.test.ts',
    name: 'that another installation may have written',
  },
  'an archive of an unknown key is own': {
    ...installation,
    from: 'return here.keys.knows(writer.keyId) && writer.namespaceUid === here.namespaceUid',
    to: 'return writer.namespaceUid === here.namespaceUid',
    name: 'of an archive of another master key',
  },
  'the files of an expired archive are found again': {
    ...newest,
    from: 'expiredTime === undefined ?',
    to: "expiredTime !== 'never' ?",
    name: 'has the newest snapshot of files',
  },
  'an expiry deletes what a new archive has stored': {
    file: 'src/controllers/archive/reconcile.ts',
    test,
    from: 'await archive.store.delete(keys, { signal });',
    to: 'await removeArchive(archive.store, { namespace, uid }, signal);',
    name: 'of an expired archive leaves what a new archive has stored meanwhile',
  },
  'an archive expires by the time of a backup': {
    file: 'src/controllers/archive/reconcile.ts',
    test,
    from: 'const newest = await this.#adopted(conversation, signal);',
    to: 'const newest = void signal;',
    name: 'does not expire by the time of the backup',
  },
  'after a restore a status of an expiry is believed': {
    file: 'src/gateway/history/history-reads.ts',
    from: "if (source === 'archive-disabled') throw noHistory(source);",
    to: "if (source === 'archive-disabled') throw noHistory(source); if (conversation.status?.archive?.expiredTime !== undefined) throw noHistory('archive-expired');",
    test: 'test/integration/gateway/history.test.ts',
    name: 'after an expiry, as after a restore of the cluster',
  },
  'the status of an archive is written right after the start': {
    file: 'src/controllers/archive/reconcile.ts',
    from: 'if (conversation.status?.archive === undefined) this.#schedule.expect(uid);',
    to: '',
    test,
    name: 'is not read right after a start',
  },
  'an event that is nested too deeply is written anew': {
    file: 'src/archive/agent-event.ts',
    from: ' || isDeeperThan(parsed, maxDepth)',
    to: '',
    test: 'test/unit/archive/extend.bad-input.test.ts',
    name: 'that nests 200000 levels',
  },
  'an event that is too large is parsed as a whole': {
    file: 'src/archive/agent-event.ts',
    from: 'text.length > maxEventBytes ? undefined : parse(text.toString())',
    to: 'parse(text.toString())',
    test: 'test/unit/archive/extend.bad-input.test.ts',
    name: 'its text is never parsed as a whole',
  },
  'an answer of an agent may be nested as deeply as the agent wants': {
    file: 'src/agent/http.ts',
    from: 'if (isDeeperThan(json, maxDepth))',
    to: 'if (text === "")',
    test: 'test/unit/agent/openhands-client.hostile-agent.test.ts',
    name: 'an answer that is nested too deeply',
  },
  'beside another installation a sweep asks for the key alone': {
    ...installation,
    from: ' && writer.namespaceUid === here.namespaceUid',
    to: '',
    test: 'test/simulation/archive/archive-model.test.ts',
    name: 'two installations with one key',
  },
  'after a restore the archives of all conversations begin anew': {
    ...archiver,
    from: 'return newestState(this.#options.archive, { namespace, uid }, expiredTime, signal);',
    to: 'return newestState(this.#options.archive, { namespace, uid: `${uid}-` }, expiredTime, signal);',
    test: 'test/simulation/archive/archive-model.test.ts',
    name: 'two installations with one key',
  },
  'a folder of other programs is removed like an archive': {
    file: 'src/archive/stored-archives.ts',
    from: 'const keys = all.filter((key) => isObjectOf(address, key));',
    to: 'const keys = all;',
    test: 'test/unit/archive/stored-archives.removal.test.ts',
    name: 'deletes all of its objects and no others',
  },
  'a folder of other programs is an archive without a head': {
    file: 'src/archive/installation.ts',
    from: "{ kind: (await isHeadless(store, address, signal)) ? 'headless' : 'unreadable' }",
    to: "{ kind: 'headless' }",
    test: 'test/unit/controllers/archive/archives.test.ts',
    name: 'of an installation whose prefix has the name of the namespace',
  },
  'a search takes a part of a word for another word': {
    ...find,
    from: 'words.includes(word)',
    to: "words.split(' ').includes(word)",
    name: 'finds what is in the texts',
  },
  'a search leaves out segments whose words are not known': {
    ...find,
    from: 'words !== undefined && !query.words.every',
    to: 'words === undefined || !query.words.every',
    name: 'of a release that did not keep them',
  },
  'a search finds the ids of events': {
    file: 'src/archive/agent-event.ts',
    test: find.test,
    from: ' && !idField.test(name)',
    to: '',
    name: 'have no ids, kinds or times',
  },
  'a search finds what it has found on the page before': {
    file: 'src/gateway/history/text-search.ts',
    test: textSearch,
    from: 'rest: event.position',
    to: 'rest: event.position + 1',
    name: 'finds each place once',
  },
  'a page of a search has no end within a long history': {
    file: 'src/gateway/history/text-search.ts',
    test: textSearch,
    from: 'found.length >= room || isLate()',
    to: 'found.length >= room',
    name: 'finds each place once',
  },
};
