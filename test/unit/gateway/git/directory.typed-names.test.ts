import { repositoryTyped, staticDirectory } from '../../../../src/gateway/git/directory.ts';

const github = 'https://github.com';

describe('what is typed to find a repository', () => {
  it.each([
    ['owner/name', github, 'owner/name'],
    ['  owner/name ', github, 'owner/name'],
    ['owner/name.git', github, 'owner/name'],
    ['group/sub/name', 'https://gitlab.com', 'group/sub/name'],
    ['https://github.com/owner/name', github, 'owner/name'],
    ['https://GitHub.com/owner/name.git', github, 'owner/name'],
    ['https://github.com/owner/name/', github, 'owner/name'],
    ['https://github.com/owner/name/tree/main/src', github, 'owner/name'],
    ['https://github.com/owner/name?tab=readme#top', github, 'owner/name'],
    [
      'https://gitlab.com/group/sub/name/-/merge_requests/3',
      'https://gitlab.com',
      'group/sub/name',
    ],
    ['https://git.example/scm/owner/name', 'https://git.example/scm/', 'owner/name'],
    ['https://evil.example/owner/name', github, undefined],
    ['https://github.com.evil.example/owner/name', github, undefined],
    ['https://github.com/owner', github, undefined],
    ['owner', github, undefined],
    ['owner/../name', github, undefined],
    ['--upload-pack/x', github, undefined],
    ['', github, undefined],
  ])('"%s" on %s is %s', (text, baseUrl, expected) => {
    expect(repositoryTyped(text, baseUrl)).toBe(expected);
  });
});

it('finds nothing on a host that is not configured', async () => {
  const directory = staticDirectory({ github });
  const search = { owner: 'alice', query: 'owner/name', limit: 10 };
  expect(await directory.repositories({ ...search, provider: 'gitlab' })).toEqual([]);
  expect(
    await directory.branches({ ...search, provider: 'gitlab', repository: 'owner/name' }),
  ).toEqual([]);
  expect(await directory.repositories({ ...search, provider: 'constructor' })).toEqual([]);
});
