import { GitHostError, redirected } from '../src/git-http.ts';

const from = new URL('https://git.example/scm/old.git/info/refs?service=git-upload-pack');
const bounds = { within: new URL('https://git.example/scm/'), path: '/info/refs' };
const redirect = (location: string | undefined): URL =>
  redirected(from, { status: 301, location }, bounds);

describe('a redirect of a git host', () => {
  it.each([
    ['https://git.example/scm/new.git/info/refs', 'https://git.example/scm/new.git/info/refs'],
    ['/scm/new/info/refs?a=b', 'https://git.example/scm/new/info/refs?a=b'],
    ['../../new.git/info/refs', 'https://git.example/scm/new.git/info/refs'],
  ])('to %s is followed', (location, expected) => {
    expect(redirect(location).href).toBe(expected);
  });

  it.each([
    ['another host', 'https://evil.example/scm/new.git/info/refs'],
    ['another port', 'https://git.example:8443/scm/new.git/info/refs'],
    ['plain HTTP', 'http://git.example/scm/new.git/info/refs'],
    ['another folder', '/other/new.git/info/refs'],
    ['a folder above', '/scm/../new.git/info/refs'],
    ['a folder of a similar name', '/scm2/new.git/info/refs'],
    ['a page for people', '/scm/new'],
    ['a user', 'https://bob@git.example/scm/new.git/info/refs'],
    ['no URL', 'https://'],
    ['nowhere', undefined],
  ])('to %s is an error', (_what, location) => {
    expect(() => redirect(location)).toThrow(GitHostError);
  });
});
