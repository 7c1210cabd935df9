import { effect } from '@preact/signals';
import { ChangeQueue, Store } from '../../../src/web/store.ts';
import { eventually } from '../../support/eventually.ts';
import { aConversation, aQuota, idOf } from '../../support/page-records.ts';

it('knows the conversations of a snapshot when it shows the quota, which names them', async () => {
  const store = new Store();
  const titles: (string | undefined)[] = [];
  effect(() => {
    if (store.quota.value !== undefined) titles.push(store.titleOf(idOf(3000)));
  });
  // 3000 conversations take several slices of time.
  const conversations = Array.from({ length: 3000 }, (_, index) => aConversation(index + 1));
  new ChangeQueue(store).push(() => ({
    kind: 'snapshot',
    data: { conversations, start_tasks: [], sandboxes: [], quota: aQuota(), last: true },
  }));
  await eventually('the snapshot to be shown', () => store.isFilled.value);
  expect(titles).toEqual(['Conversation 3000']);
});
