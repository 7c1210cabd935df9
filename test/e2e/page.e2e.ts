import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { program } from '../support/installation.ts';
import { Window } from '../browser/support/browser.ts';
import { signInByLink } from '../browser/support/sign-in.ts';
import { kubeconfig } from './support/cluster.ts';
import { TestedInstallation, publicUrl, release } from './support/installation.ts';
import { PortForward } from './support/port-forward.ts';

const execute = promisify(execFile);
const up = new TestedInstallation('page');
const { hostname } = new URL(publicUrl);

let forward: PortForward;
let window: Window;
beforeAll(async () => {
  forward = await PortForward.open(up.facts.namespace, `service/${release}-gateway`, 80);
  window = await Window.open({
    firstPicture: 201,
    rules: [`MAP ${hostname} ${new URL(forward.url).host}`],
  });
});
afterAll(async () => {
  await window.close();
  forward.close();
});

/** Runs the command of the notes of the chart, which prints a link to sign in. */
async function loginLink(): Promise<string> {
  const args = [
    ...[program, 'login-link', '--namespace', up.facts.sandboxes, '--owner', 'page'],
    ...['--url', publicUrl, '--kubeconfig', kubeconfig],
  ];
  return (await execute(process.execPath, args)).stdout.trim();
}

/** Expected: reads that a page has given up, and a header that plain http has no use for. */
const expected = /^GET net::ERR_ABORTED|Cross-Origin-Opener-Policy/;
const faults = () => window.faults().filter((fault) => !expected.test(fault));

describe('a person with a browser', () => {
  it('signs in by the link of the command, once', async () => {
    const link = await loginLink();
    await signInByLink(window, link);
    await window.page.waitForURL(`${publicUrl}/`);
    await window.page.getByRole('heading', { name: 'New conversation' }).waitFor();
    const again = await fetch(link.replace(publicUrl, forward.url));
    expect(again.status).toBe(401);
  });

  it('starts a conversation with a repository and reads the answer', async () => {
    const { page } = window;
    const form = page.getByRole('form', { name: 'New conversation' });
    await form.getByLabel('Message').fill('Who are you:\n```sh\ncat README.md; id -u\n```');
    await form.getByLabel('Repository', { exact: true }).fill('acme/shop');
    await form.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('link', { name: 'Who are you' }).click();
    await page.getByRole('article').getByText('All blocks succeeded').waitFor({ timeout: 90_000 });
    await window.picture('the page on a cluster');
    expect(faults()).toEqual([]);
    expect([...window.outside].filter((host) => host !== hostname)).toEqual([]);
  });

  it('sees how it started, with the lines of kubectl', async () => {
    const { page } = window;
    await page.getByRole('tab', { name: 'Life' }).click();
    await page.getByText('The agent has accepted the conversation.').waitFor();
    await page.getByText('In the cluster').click();
    await page.getByText(`kubectl -n ${up.facts.sandboxes} describe conversation`).waitFor();
    await page.getByText('kind: Conversation').waitFor();
    expect(faults()).toEqual([]);
  });

  it('signs out', async () => {
    const { page } = window;
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/login/);
    await page.goto(`${publicUrl}/operate`);
    await page.waitForURL(/\/login\?return_to=/);
  });
});
