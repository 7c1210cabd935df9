import type { ConversationRecord } from '../../src/web/wire.ts';
import { aConversation, aQuota, aSandbox, idOf } from '../support/page-records.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(151);

afterEach(() => {
  expect(window.faults()).toEqual([]);
});

const show = (fields: Partial<ConversationRecord>): void => {
  service.snapshots = [
    {
      conversations: [aConversation(1, fields)],
      sandboxes: [aSandbox(1, { sandbox_spec_id: 'codex' })],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
};
const detailsAt = async (path: string): Promise<string> => {
  await window.page.goto(service.url + path);
  return window.page.locator('.row-details').innerText();
};

it('names an agent as it calls itself, and not by its protocol', async () => {
  show({ agent_name: 'Reference agent', llm_model: 'small-1' });
  for (const path of [`/c/${idOf(1)}`, '/']) {
    const details = await detailsAt(path);
    expect(details).toContain('Reference agent');
    expect(details).not.toContain('openhands');
  }
});

it('names an agent once that has the name of its model or template', async () => {
  show({ agent_kind: 'codex', agent_name: 'codex', llm_model: 'codex' });
  for (const path of [`/c/${idOf(1)}`, '/'])
    expect((await detailsAt(path)).match(/codex/g)).toHaveLength(1);
  await window.picture('agent and template of one name');
});
