import { ageOf } from '@conversation-operator/kube/object';
import { formatAmount } from '../budget/money.ts';
import { conversationQuotas } from '../resources/conversation-quota.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { chosenOwner } from './owner.ts';
import {
  lacksBudgets,
  nextStartOf,
  quotaOf,
  readScene,
  withBudgetsOf,
  type Scene,
} from './scene.ts';
import { print, printTable, printValue, say } from './terminal.ts';

/** Words for what limits on stored objects count, where these differ from the field of REST. */
const storedUnits: Readonly<Record<string, string>> = { stored_bytes: 'bytes of conversations' };

const count = (value: number | undefined): string => (value === undefined ? '–' : String(value));

/** One line for each budget that holds for an owner. */
const budgetLines = (scene: Scene, owner: string): readonly string[] =>
  scene.lookup.budgetsOf(owner, scene.now).map(({ quota: of, unit, endsAtMs, use }) => {
    if (lacksBudgets(scene))
      return `${of.quotaName}: a budget of ${of.amount} ${unit} for models. What is spent is not shown: you may not get usagerecords.`;
    const whose = of.scope === 'Owner' ? owner : 'all owners';
    const [all, used, held] = [use.limit, use.spent, use.reserved].map((amount) =>
      formatAmount(amount, unit),
    );
    const end = new Date(endsAtMs).toISOString();
    return `${of.quotaName}: ${used} of ${all} ${unit} a ${of.period.toLowerCase()} spent on models by ${whose}, ${held} reserved; starts again at ${end}.`;
  });

/** The part of an owner in the quotas, or all quotas where no owner is known. */
export const quota = (options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace, context }) => {
    const chosen = options.allNamespaces === true ? undefined : await chosenOwner(options, context);
    if (chosen !== undefined) {
      const { owner, from } = chosen;
      if (from !== undefined) say(`Owner: ${owner}, of ${from}.`);
      const scene = await withBudgetsOf(await readScene(client, namespace), owner);
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
      for (const line of budgetLines(scene, owner)) print(line);
      print(`One more start: ${nextStartOf(scene, owner)}`);
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
