import type { PillIcon } from '../../sentences/groups.ts';

export type IconName = PillIcon | 'search' | 'more' | 'close' | 'image' | 'plus' | 'arrow';

/** SVG paths, drawn as lines in a square of 16 by 16. */
const paths: Readonly<Record<IconName, string>> = {
  ask: 'M5.8 6.2a2.2 2.2 0 1 1 3.3 1.9c-.7.4-1.1.8-1.1 1.6M8 12h.01M14.5 8a6.5 6.5 0 1 1-13 0 6.5 6.5 0 0 1 13 0Z',
  alert:
    'M8 5v3.5M8 11h.01M7.1 2.3 1.5 12a1 1 0 0 0 .9 1.5h11.2a1 1 0 0 0 .9-1.5L8.9 2.3a1 1 0 0 0-1.8 0Z',
  run: 'M5 3.2v9.6L12.5 8 5 3.2Z',
  start: 'M14 8a6 6 0 1 1-2-4.5M14 2v3h-3',
  wait: 'M8 4.5V8l2.3 1.5M14.5 8a6.5 6.5 0 1 1-13 0 6.5 6.5 0 0 1 13 0Z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  done: 'm3 8.5 3.3 3.3L13 4.7',
  idle: 'M3 8h.01M8 8h.01M13 8h.01',
  gone: 'M3.5 3.5l9 9M14.5 8a6.5 6.5 0 1 1-13 0 6.5 6.5 0 0 1 13 0Z',
  search: 'm13.5 13.5-3-3M12 7A5 5 0 1 1 2 7a5 5 0 0 1 10 0Z',
  more: 'M3 8h.01M8 8h.01M13 8h.01',
  close: 'm4 4 8 8m0-8-8 8',
  image: 'M2.5 3h11v10h-11V3Zm0 8 3-3 2.5 2.5L10.5 8l3 3M10 6h.01',
  plus: 'M8 3v10M3 8h10',
  arrow: 'M3 8h10M9 4l4 4-4 4',
};

/** Decorative: the meaning is in the text beside the icon, or in the label of its button. */
export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">
    <path d={paths[name]} />
  </svg>
);
