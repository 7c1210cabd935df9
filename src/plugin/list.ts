import { ageOf } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversations } from '../resources/conversation.ts';
import { namespacesOf } from './namespaces.ts';
import { repositoryOf, sandboxIdOf, templateOf, titleOf, type Facts } from '../sentences/facts.ts';
import { groupOf, groups, pillOf } from '../sentences/groups.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { sentenceOf, type Around } from '../sentences/sentences.ts';
import { aroundOf, factsOf, readScene, type Scene } from './scene.ts';
import { print, printTable, printValue, say } from './terminal.ts';

interface Row {
  readonly conversation: CachedConversation;
  readonly facts: Facts;
  readonly sentence: string;
}

/** The conversations of a namespace in the order of the page: by group, then newest first. */
export function rowsOf(scene: Scene, owner: string | undefined): readonly Row[] {
  const all =
    owner === undefined
      ? scene.lookup
          .everyHolding()
          .conversations.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      : scene.lookup.conversationsOf(owner);
  const arounds = new Map<string, Around>();
  return all
    .map((conversation) => {
      const { owner } = conversation.spec;
      const around = arounds.get(owner) ?? aroundOf(scene, owner);
      arounds.set(owner, around);
      const facts = factsOf(scene, conversation);
      return { conversation, facts, sentence: sentenceOf(facts, around) };
    })
    .sort(
      (one, other) =>
        groups.indexOf(groupOf(one.facts)) - groups.indexOf(groupOf(other.facts)) ||
        (createdOf(one) < createdOf(other) ? 1 : -1),
    );
}
const createdOf = ({ conversation: { metadata } }: Row): string =>
  `${metadata.creationTimestamp} ${metadata.name}`;

const valueOf = ({ conversation: { metadata, spec }, facts, sentence }: Row) => ({
  name: metadata.name,
  namespace: metadata.namespace,
  owner: spec.owner,
  state: groupOf(facts),
  sentence,
  record: facts.conversation,
});

export const list = (options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const rows: Row[] = [];
    for (const each of await namespacesOf(client, conversations, namespace))
      rows.push(...rowsOf(await readScene(client, each), options.owner));
    const { output } = options;
    if (printValue(output, { items: rows.map(valueOf) })) return;
    if (output === 'name') {
      for (const { conversation } of rows) print(nameOf(conversation));
      return;
    }
    if (rows.length === 0) {
      say(emptyText(namespace, options.owner));
      return;
    }
    const isWide = output === 'wide';
    const cell = (isShown: boolean, text: string): readonly string[] => (isShown ? [text] : []);
    const now = Date.now();
    printTable([
      [
        ...cell(namespace === '', 'NAMESPACE'),
        ...['NAME', 'STATE', 'AGE'],
        ...cell(isWide, 'OWNER'),
        ...cell(isWide, 'REPOSITORY'),
        ...cell(isWide, 'TEMPLATE'),
        ...cell(isWide, 'SANDBOX'),
        ...['TITLE', 'WHY'],
      ],
      ...rows.map(({ conversation: { metadata, spec }, facts, sentence }) => [
        ...cell(namespace === '', metadata.namespace),
        ...[metadata.name, pillOf(facts).label, ageOf(metadata.creationTimestamp, now)],
        ...cell(isWide, spec.owner),
        ...cell(isWide, repositoryOf(facts) ?? ''),
        ...cell(isWide, templateOf(facts) ?? ''),
        ...cell(isWide, sandboxIdOf(facts) ?? ''),
        ...[isWide ? titleOf(facts) : shortened(titleOf(facts)), sentence],
      ]),
    ]);
  });

const maxTitle = 32;
const shortened = (title: string): string =>
  title.length <= maxTitle
    ? title
    : `${title
        .slice(0, maxTitle - 1)
        .toWellFormed()
        .trimEnd()}…`;

const emptyText = (namespace: string, owner: string | undefined): string =>
  `There are no conversations${owner === undefined ? '' : ` of ${owner}`}${namespace === '' ? '' : ` in the namespace ${namespace}`}`;

/** The name in the form of kubectl's `-o name`. */
export const nameOf = ({ metadata }: { readonly metadata: { readonly name: string } }): string =>
  `conversation.conversation-operator.dev/${metadata.name}`;
