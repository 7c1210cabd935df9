import { mediaTypeOf, readSmartRequest, type SmartRequest } from '../src/smart-http.ts';

const read = (method: string, text: string): SmartRequest | undefined => {
  const url = new URL(text, 'http://gateway');
  return readSmartRequest(method, url.pathname.slice(1).split('/'), url.searchParams);
};

describe('a request of a git client', () => {
  it.each<[string, string, SmartRequest]>([
    [
      'GET',
      'owner/name.git/info/refs?service=git-upload-pack',
      { repository: 'owner/name', service: 'git-upload-pack', part: 'references' },
    ],
    [
      'GET',
      'group/sub/name.git/info/refs?service=git-receive-pack',
      { repository: 'group/sub/name', service: 'git-receive-pack', part: 'references' },
    ],
    [
      'POST',
      'owner/name.git/git-upload-pack',
      { repository: 'owner/name', service: 'git-upload-pack', part: 'service' },
    ],
    [
      'POST',
      'owner/name.git/git-receive-pack',
      { repository: 'owner/name', service: 'git-receive-pack', part: 'service' },
    ],
    [
      'POST',
      'owner.git/name.git/git-upload-pack',
      { repository: 'owner.git/name', service: 'git-upload-pack', part: 'service' },
    ],
    [
      'POST',
      'owner/name/git-upload-pack',
      { repository: 'owner/name', service: 'git-upload-pack', part: 'service' },
    ],
    [
      'GET',
      'group/sub/name/info/refs?service=git-receive-pack',
      { repository: 'group/sub/name', service: 'git-receive-pack', part: 'references' },
    ],
  ])('is understood: %s %s', (method, text, expected) => {
    expect(read(method, text)).toEqual(expected);
  });

  it.each([
    ['GET', 'owner/name.git/info/refs'],
    ['GET', 'owner/name.git/info/refs?service=git-upload-archive'],
    ['POST', 'owner/name.git/info/refs?service=git-upload-pack'],
    ['GET', 'owner/name.git/git-upload-pack'],
    ['POST', 'owner/name.git/git-upload-pack?a=b'],
    ['POST', 'owner/name.git/git-upload-archive'],
    ['POST', 'owner/name.git'],
    ['GET', 'owner/name.git/HEAD'],
    ['POST', 'name.git/git-upload-pack'],
    ['POST', 'name/git-upload-pack'],
    ['GET', 'name/info/refs?service=git-upload-pack'],
    ['POST', 'owner/name/git-upload-archive'],
    ['POST', 'owner/name'],
  ])('is none: %s %s', (method, text) => {
    expect(read(method, text)).toBeUndefined();
  });
});

it.each([
  ['text/html; charset=utf-8', 'text/html'],
  [' Text/HTML ;x', 'text/html'],
  ['', ''],
])('the media type of %j is %j', (header, expected) => {
  expect(mediaTypeOf(header)).toBe(expected);
});
