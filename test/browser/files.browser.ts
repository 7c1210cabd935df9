import { aConversation, aQuota, aSandbox, everyKind, idOf } from '../support/page-records.ts';
import type { ConversationRecord } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const id = idOf(2);
const base = `GET /api/v1/app-conversations/${id}`;
const hostile = '<img src=x onerror=alert(1)>.md';

const { service, window } = await openPages(161);
const have = (fields: Partial<ConversationRecord> = {}) => {
  const status = fields.sandbox_status === 'PAUSED' ? 'PAUSED' : 'RUNNING';
  service.snapshots = [
    {
      ...everyKind(),
      conversations: [aConversation(2, fields)],
      sandboxes: [aSandbox(2, { status })],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
};
const ok = (json: unknown) => ({ status: 200, json });
beforeEach(async () => {
  have();
  service.answers.clear();
  service.answers.set(
    `${base}/files`,
    ok(['README.md', 'src/web/login.ts', 'src/a10.ts', 'src/a2.ts', `docs/${hostile}`]),
  );
  window.faults();
  await window.page.setViewportSize({ width: 1280, height: 800 });
  await window.page.emulateMedia({ colorScheme: 'light' });
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});
const open = (query = '?view=files') => window.page.goto(`${service.url}/c/${id}${query}`);
const names = () => window.page.locator('.file-browser nav summary, .tree-file').allInnerTexts();
const barWidth = () =>
  window.page.evaluate<number>(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );

it('shows a tree, and one file in colours, whose address opens it again', async () => {
  const { page } = window;
  service.answers.set(`${base}/file`, ok('const a = 1;\nlet b = "<b>two</b>";\n'));
  await open();
  await page.getByText('README.md').waitFor();
  expect(await names()).toEqual(['docs', 'src', 'README.md']);
  await page.locator('summary', { hasText: 'src' }).click();
  await page.getByRole('button', { name: 'a10.ts' }).waitFor();
  expect(await names()).toEqual(['docs', 'src', 'web', 'a2.ts', 'a10.ts', 'README.md']);
  const asked = page.waitForRequest('**/file?*');
  await page.getByRole('button', { name: 'a2.ts' }).click();
  const { searchParams } = new URL((await asked).url());
  expect(searchParams.get('file_path')).toBe('/workspace/project/src/a2.ts');
  await page.locator('.code-string').waitFor();
  expect(await page.locator('.diff-same').allInnerTexts()).toEqual([
    '\t1\t \tconst a = 1;',
    '\t2\t \tlet b = "<b>two</b>";',
  ]);
  expect(await page.getByRole('link', { name: 'Download' }).getAttribute('href')).toBe(
    `/api/v1/app-conversations/${id}/file/content?file_path=${encodeURIComponent('/workspace/project/src/a2.ts')}`,
  );
  service.answers.set(`${base}/file`, ok('const a = "2";\n'));
  await page.getByRole('button', { name: 'Read again' }).click();
  await page.locator('.diff-same', { hasText: 'const a = "2";' }).waitFor();
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`files in ${colorScheme}`);
  }
  await page.reload();
  await page.locator('.code-string').waitFor();
  expect(await names()).toContain('a2.ts');
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await barWidth()).toBe(0);
  await window.picture('files on a phone');
});

it('finds a file by words of its path, with the keyboard alone', async () => {
  const { page } = window;
  service.answers.set(`${base}/file`, ok('text'));
  await open();
  await page.getByLabel('Find a file').fill('LOGIN src');
  expect(await names()).toEqual(['src/web/login.ts']);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'src/web/login.ts' }).waitFor();
  await page.getByRole('button', { name: 'Comment on a line' }).click();
  await page.getByLabel('Comment on').fill('Shorter');
  await page.keyboard.press('Control+Enter');
  expect(await page.getByLabel('Message').inputValue()).toBe(
    '`src/web/login.ts`, line 1:\n> text\nShorter\n',
  );
  await page.getByLabel('Find a file').fill('nothing');
  await page.getByText('No path has these words.').waitFor();
});

it('shows hostile names and texts as they are', async () => {
  const { page } = window;
  service.answers.set(`${base}/file`, ok('<script>document.title = "owned"</script>'));
  await open();
  await page.locator('summary', { hasText: 'docs' }).click();
  await page.getByRole('button', { name: hostile }).click();
  await page.getByText('document.title = "owned"').waitFor();
  expect(await page.locator('main img, main script').count()).toBe(0);
});

it('says what a pause has not kept, and what has failed', async () => {
  const { page } = window;
  have({ sandbox_status: 'PAUSED', execution_status: null });
  service.answers.set(`${base}/file`, ok(''));
  await open('?view=files&path=README.md');
  await page.getByText('The files are as they were at the last pause.').waitFor();
  await page.getByText('the pause has kept its name alone').waitFor();
  service.answers.set(`${base}/files`, {
    status: 502,
    json: { code: 'agent-error', detail: 'The agent has answered HTML.' },
  });
  await page.getByRole('button', { name: 'Read again' }).click();
  await page.getByText('The agent has answered HTML.').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  window.faults();
});

it('shows 10,000 files, and finds one', async () => {
  const { page } = window;
  const paths = Array.from({ length: 10_000 }, (_, index) => `folder-${index % 300}/f-${index}.ts`);
  service.answers.set(`${base}/files`, ok(paths));
  await open('?view=files');
  await page.getByText('The folder has more files than these 10,000.').waitFor();
  expect(await page.locator('.file-browser summary').count()).toBe(300);
  await page.getByLabel('Find a file').fill('f-99');
  await page.getByRole('button', { name: 'folder-99/f-99.ts' }).waitFor();
});
