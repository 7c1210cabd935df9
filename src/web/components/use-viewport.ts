import { useSignal, type ReadonlySignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect } from 'preact/hooks';

export interface Viewport {
  /** The distance from the top of the element to that of the window, in steps. */
  readonly top: number;
  readonly height: number;
  readonly isNarrow: boolean;
}

/** Scrolling renders the list again once for this number of pixels. */
const stepPx = 240;
/** The same width is in styles.css. */
const narrow = '(max-width: 640px)';

/** The part of an element that the window shows. */
export function useViewport(element: RefObject<HTMLElement | null>): ReadonlySignal<Viewport> {
  const viewport = useSignal<Viewport>({
    top: 0,
    height: innerHeight,
    isNarrow: matchMedia(narrow).matches,
  });
  useEffect(() => {
    const measure = () => {
      const distance = -(element.current?.getBoundingClientRect().top ?? 0);
      const next = {
        top: Math.floor(distance / stepPx) * stepPx,
        height: innerHeight,
        isNarrow: matchMedia(narrow).matches,
      };
      const { top, height, isNarrow } = viewport.peek();
      if (next.top !== top || next.height !== height || next.isNarrow !== isNarrow)
        viewport.value = next;
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure, { passive: true });
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, [element, viewport]);
  return viewport;
}
