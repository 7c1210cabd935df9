import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { FakeService } from './support/fake-service.ts';
import { aConversation, aQuota, aSandbox, idOf } from '../support/page-records.ts';

const dayMs = 86_400_000;
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

let service: FakeService;
let window: Window;
beforeAll(async () => {
  service = await FakeService.start();
  window = await Window.open({ firstPicture: 95 });
}, 60_000);
afterAll(async () => {
  await window.close();
  await service.stop();
}, 30_000);

describe.each([
  ['a day ahead', dayMs],
  ['a day behind', -dayMs],
])('With the clock of the browser %s', (_where, offsetMs) => {
  it.each(['/', `/c/${idOf(1)}`])('%s shows times by the clock of the service', async (path) => {
    const page = await window.page.context().newPage();
    try {
      await page.addInitScript((ms) => {
        const { now } = Date;
        Date.now = () => now() + ms;
      }, offsetMs);
      const fields = { updated_at: minutesAgo(3), execution_status: 'running' } as const;
      service.snapshots = [
        {
          conversations: [aConversation(1, fields)],
          sandboxes: [aSandbox(1)],
          start_tasks: [],
          quota: aQuota(),
          last: true,
        },
      ];
      await page.goto(service.url + path);
      await page.getByText('Running. Last activity 3 min ago.').waitFor();
      expect(await violationsIn(page)).toEqual([]);
      service.emit('conversation', aConversation(1, { ...fields, updated_at: minutesAgo(0) }));
      await page.getByText('Running. Last activity just now.').waitFor();
      expect(page.url()).toBe(service.url + path);
    } finally {
      await page.close();
    }
  });
});
