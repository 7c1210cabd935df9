import type { RestUser } from '../../support/rest-user.ts';
import type { Window } from './browser.ts';

/** Stores in the browser what the first page of the web UI asks for: a service and a user's key. */
export const signIn = ({ page }: Window, { url, key }: RestUser): Promise<unknown> =>
  page.addInitScript(
    ({ host, apiKey }) => {
      const backend = { id: 'ours', name: 'Our service', kind: 'cloud', host, apiKey };
      localStorage.setItem('openhands-backends', JSON.stringify([backend]));
      localStorage.setItem(
        'openhands-active-backend',
        JSON.stringify({ backendId: backend.id, orgId: null }),
      );
      localStorage.setItem('openhands-onboarded', '1');
    },
    { host: url, apiKey: key },
  );

/** Opens the link that a text contains, and presses the button of its page, which signs in. */
export async function signInByLink({ page }: Window, text: string): Promise<void> {
  await page.goto(/http:\S+\/login\?token=\S+/.exec(text)?.[0] ?? '');
  await page.getByRole('button', { name: /^Sign in as / }).click();
}
