import { ageOf } from '@conversation-operator/kube/object';
import { conversationQuotas } from '../resources/conversation-quota.ts';
import { forecastOf } from '../sentences/forecast.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { chosenOwner } from './owner.ts';
import { quotaOf, readScene, titlesOf } from './scene.ts';
import { print, printTable, printValue, say } from './terminal.ts';

/** Words for what limits on stored objects count, where these differ from the field of REST. */
const storedUnits: Readonly<Record<string, string>> = { stored_bytes: 'bytes of conversations' };

const count = (value: number | undefined): string => (value === undefined ? '–' : String(value));

/** The part of an owner in the quotas, or all quotas where no owner is known. */
export const quota = (options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace, context }) => {
    const chosen = options.allNamespaces === true ? undefined : await chosenOwner(options, context);
    if (chosen !== undefined) {
      const { owner, from } = chosen;
      if (from !== undefined) say(`Owner: ${owner}, of ${from}.`);
      const scene = await readScene(client, namespace);
      // Without the quotas, the sentence would say that there is no limit.
      if (scene.unread.includes('conversationquotas'))
        await client.list(conversationQuotas, { namespace });
      const record = quotaOf(scene, owner);
      if (printValue(options.output, record)) return;
      for (const { name, scope, active, limit, on_exceeded } of record.quotas)
        print(
          `${name}: ${active} of ${limit} active ${scope === 'Owner' ? `of ${owner}` : 'of all owners'} (${on_exceeded}).`,
        );
      print(
        `${owner}: ${record.active} active, ${record.waiting} waiting, ${record.paused} paused by a quota.`,
      );
      for (const { quota: name, of, limit, current } of record.caps)
        print(`${name}: ${current} of ${limit} ${storedUnits[of] ?? of} stored.`);
      print(`One more start: ${forecastOf(record, titlesOf(scene, owner), scene.now)}`);
      return;
    }
    const { items } = await client.list(conversationQuotas, namespace === '' ? {} : { namespace });
    if (printValue(options.output, { items })) return;
    if (options.output === 'name')
      for (const { metadata } of items)
        print(`conversationquota.conversation-operator.dev/${metadata.name}`);
    else if (items.length === 0) say('There are no quotas: nothing limits how much runs at once');
    else
      printTable([
        [
          'NAMESPACE',
          'NAME',
          'SCOPE',
          'OWNER',
          'LIMIT',
          'ACTIVE',
          'WAITING',
          'PAUSED',
          'POLICY',
          'AGE',
        ],
        ...items.map(({ metadata, spec, status }) => [
          ...[metadata.namespace, metadata.name, spec.scope, spec.owner ?? '', String(spec.limit)],
          ...[count(status?.active), count(status?.waiting), count(status?.paused)],
          ...[spec.onExceeded, ageOf(metadata.creationTimestamp, Date.now())],
        ]),
      ]);
  });
