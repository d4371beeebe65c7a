// What every view is made of: Preact with htm, from one place.
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, createContext, h, render } from "./vendor/preact.js";
export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/hooks.js";

/** Markup as a tagged template. Every value in it becomes text or an attribute, never markup. */
export const html = htm.bind(h);
