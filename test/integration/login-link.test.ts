import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Installation, program } from '../support/installation.ts';

const run = promisify(execFile);

describe('A link that signs in', () => {
  let installation: Installation;
  beforeAll(async () => {
    installation = await Installation.start();
  });
  afterAll(() => installation.stop());

  const basic = { PATH: process.env['PATH'], HOME: '/nonexistent' };
  const loginLink = (...options: readonly string[]) =>
    run(process.execPath, [program, 'login-link', ...options], {
      env: { ...basic, DATA_DIR: installation.dataDir },
    });

  /** Opens a link, and returns the owner and the role of the session. */
  async function signIn(link: string): Promise<unknown> {
    const opened = await fetch(link);
    if (opened.status !== 200) return opened.status;
    const { origin, searchParams } = new URL(link);
    const { status, headers } = await fetch(`${origin}/login`, {
      method: 'POST',
      body: searchParams,
      redirect: 'manual',
      headers: { origin, 'sec-fetch-site': 'same-origin' },
    });
    if (status !== 303) return status;
    const [cookie = ''] = (headers.get('set-cookie') ?? '').split(';');
    const user = new URL('/api/v1/users/me', link);
    return (await fetch(user, { headers: { cookie } })).json();
  }

  it('is printed at the start, before the line for curl, and works once', async () => {
    const { output } = installation;
    const [link = ''] = /^http:\S+\/login\?token=\S+$/m.exec(output) ?? [];
    expect(output.indexOf(link)).toBeLessThan(output.indexOf('curl -s'));
    expect(await signIn(link)).toMatchObject({ id: 'local', role: 'admin' });
    expect(await signIn(link)).toBe(401);
  });

  it('comes from the line that is printed, in any folder and beside another cluster', async () => {
    const { output } = installation;
    const line = /^DATA_DIR=.* login-link$/m.exec(output)?.[0] ?? '';
    const { stdout } = await run('/bin/sh', ['-c', line], {
      cwd: '/',
      env: { ...basic, KUBECONFIG: '/nonexistent/kubeconfig' },
    });
    expect(await signIn(stdout.trim())).toMatchObject({ id: 'local', role: 'admin' });
  });

  it('comes from the command beside the KUBECONFIG of the service', async () => {
    const env = { ...basic, KUBECONFIG: installation.kubeconfig };
    const { stdout } = await run(process.execPath, [program, 'login-link'], { cwd: '/', env });
    expect(stdout).toContain(installation.url);
    expect(await signIn(stdout.trim())).toMatchObject({ id: 'local', role: 'admin' });
  });

  it('needs a service that uses the data folder', async () => {
    const env = { ...basic, DATA_DIR: '/nonexistent' };
    await expect(run(process.execPath, [program, 'login-link'], { env })).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^conversation-operator: DATA_DIR: no service .*\n$/) as string,
    });
  });

  it('comes from the command, for the service of the data folder', async () => {
    const { stdout, stderr } = await loginLink();
    expect(await signIn(stdout.trim())).toMatchObject({ id: 'local', role: 'admin' });
    expect(stderr).toContain('within 10 minutes');
  });

  it('comes from the command for a cluster, as a user of the owner named', async () => {
    const { kubeconfig, url } = installation;
    const named = ['--kubeconfig', kubeconfig, '--url', url] as const;
    const { stdout } = await loginLink(...named, '--owner', 'alice');
    expect(await signIn(stdout.trim())).toMatchObject({ id: 'alice', role: 'user' });
    await expect(loginLink(...named)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--owner') as string,
    });
    await expect(loginLink(...named, '--owner', 'alice', '--url', 'x')).rejects.toMatchObject({
      stderr: expect.stringContaining('--url') as string,
    });
  });
});
