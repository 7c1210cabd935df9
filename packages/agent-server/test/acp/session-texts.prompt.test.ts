import { promptOf } from '../../src/acp/session-texts.ts';
import type { Content } from '../../src/events.ts';

const png = 'data:image/png;base64,iVBORw0K';
const text = (value: string): Content => ({ type: 'text', text: value });
const image = (...image_urls: readonly string[]): Content => ({ type: 'image', image_urls });

describe('a prompt', () => {
  it.each<[string, readonly Content[], boolean, readonly object[], number]>([
    ['has a text', [text('Hello')], true, [{ type: 'text', text: 'Note\n\nHello' }], 0],
    [
      'has the images of a message behind its text',
      [text('Compare'), image(png, png)],
      true,
      [
        { type: 'text', text: 'Note\n\nCompare\n[image 1]\n[image 2]' },
        { type: 'image', mimeType: 'image/png', data: 'iVBORw0K' },
        { type: 'image', mimeType: 'image/png', data: 'iVBORw0K' },
      ],
      0,
    ],
    [
      'marks the images that an agent does not read',
      [text('See'), image(png)],
      false,
      [{ type: 'text', text: 'Note\n\nSee\n[image that you can not see]' }],
      1,
    ],
    [
      'has the address of an image that is elsewhere',
      [image('https://example.com/a.png')],
      true,
      [{ type: 'text', text: 'Note\n\n[image at https://example.com/a.png]' }],
      1,
    ],
    [
      'has no data of another type',
      [image('data:text/html;base64,AA', 'data:image/png,raw')],
      true,
      [
        {
          type: 'text',
          text: 'Note\n\n[image that you can not see]\n[image that you can not see]',
        },
      ],
      2,
    ],
  ])('%s', (_case, content, readsImages, blocks, unreadImages) => {
    expect(promptOf(['Note'], [content], readsImages)).toEqual({ blocks, unreadImages });
  });
});
