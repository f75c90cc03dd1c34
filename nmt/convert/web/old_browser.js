// In the words of old browsers: says so where one cannot run the translator.
(function () {
  var missing = [];
  function lacks(name, has) {
    try { if (has()) return; } catch (error) {}
    missing.push(name);
  }
  lacks("WebAssembly", function () { return typeof WebAssembly === "object" && WebAssembly.validate(new Uint8Array(
    [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11])); });
  lacks("workers", function () { return typeof Worker === "function"; });
  lacks("DecompressionStream", function () { return typeof DecompressionStream === "function"; });
  lacks("lookbehind", function () { return new RegExp("(?<!a)\\p{L}", "u").test("b"); });
  if (!missing.length) return;
  window.isTooOld = true;
  var place = document.getElementById("status");
  place.className = "failed";
  place.textContent = "This browser is too old for the translator (it lacks " + missing.join(", ") +
    "). Please open the page in a browser of 2023 or newer.";
  document.getElementById("source").disabled = true;
})();
