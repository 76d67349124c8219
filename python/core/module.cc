// The extension module stringline._core: two types and two functions, in CPython's limited
// interface of 3.10, so that the same file serves all later versions. The public interface is
// Python code.
//
//   call(name, request, *steps) -> (code, text, figures, step)   calls.h; JSON as text
//   array(step, name) -> Array or None                            arrays.h
#include <Python.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "python/core/arrays.h"
#include "python/core/calls.h"
#include "schedlang/base/threads.h"

namespace stringline::python {
namespace {

PyObject* step_type = nullptr;
PyObject* array_type = nullptr;

// Python's objects: a step, and an array that keeps its step alive.
struct StepObject {
  PyObject_HEAD Step* step;
};
struct ArrayObject {
  PyObject_HEAD Step* step;
  Array array;
};

template <typename Object>
Object* New(PyObject* type, Step step) {
  auto* const made = reinterpret_cast<PyTypeObject*>(type);
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(made, Py_tp_alloc));
  auto* const object = reinterpret_cast<Object*>(allocate(made, 0));
  if (object != nullptr) object->step = new Step(std::move(step));
  return object;
}

template <typename Object>
void Free(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  delete reinterpret_cast<Object*>(self)->step;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// NumPy's protocol: the address of the items, their number and bytes; read-only.
PyObject* ArrayInterface(PyObject* self, void*) {
  const Array& array = reinterpret_cast<ArrayObject*>(self)->array;
  return Py_BuildValue("{s:(n),s:N,s:(NO),s:i}", "shape", static_cast<Py_ssize_t>(array.items),
                       "typestr", PyUnicode_FromFormat("|V%zu", array.item_bytes), "data",
                       PyLong_FromVoidPtr(const_cast<void*>(array.data)), Py_True, "version", 3);
}

// Performs `work` on a thread of its own, without the interpreter's lock; the calling thread looks
// for signals. True if a signal handler has raised an exception, as for Ctrl-C: then *stopped is
// set, and the work has ended since.
bool RunWatched(const std::function<void()>& work, std::atomic<bool>* stopped) {
  constexpr std::chrono::milliseconds kPatience(50);
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, interrupted = false;
  const auto all = [&] {
    work();
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    changed.notify_all();
  };
  PyThreadState* state = PyEval_SaveThread();
  std::vector<std::thread> threads;
  // Without a thread, signals wait for the end of the work.
  if (!StartThreads(1, all, &threads).ok()) all();
  {
    std::unique_lock<std::mutex> lock(mutex);
    while (!changed.wait_for(lock, kPatience, [&done] { return done; })) {
      if (interrupted) continue;
      lock.unlock();
      PyEval_RestoreThread(state);
      interrupted = PyErr_CheckSignals() != 0;
      if (interrupted) *stopped = true;
      state = PyEval_SaveThread();
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  PyEval_RestoreThread(state);
  return interrupted;
}

absl::StatusOr<Answer> CallCaught(const std::string& name, const std::string& json,
                                  Request* request) {
  try {
    request->json = Json::parse(json);
    return Call(name, *request);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for this plan");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

PyObject* Text(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// The code is 0; -1 for findings; else a code of absl::Status.
PyObject* Result(int code, const std::string& text, const std::string& figures, const Step& step) {
  PyObject* object = nullptr;
  if (step == nullptr) {
    object = Py_None;
    Py_INCREF(object);
  } else {
    object = reinterpret_cast<PyObject*>(New<StepObject>(step_type, step));
  }
  return Py_BuildValue("(iNNN)", code, Text(text), Text(figures), object);
}

// The text of argument `index`; null, and an exception, if the argument is no text.
const char* TextArgument(PyObject* args, Py_ssize_t index) {
  PyObject* const argument = PyTuple_GetItem(args, index);
  return argument == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(argument, nullptr);
}

const Step* StepArgument(PyObject* args, Py_ssize_t index) {
  PyObject* const argument = PyTuple_GetItem(args, index);
  if (argument == nullptr) return nullptr;
  if (Py_TYPE(argument) == reinterpret_cast<PyTypeObject*>(step_type)) {
    return reinterpret_cast<StepObject*>(argument)->step;
  }
  PyErr_SetString(PyExc_TypeError, "expected a step");
  return nullptr;
}

PyObject* CallOfPython(PyObject*, PyObject* args) {
  const char* const name = TextArgument(args, 0);
  if (name == nullptr) return nullptr;
  const char* const json = TextArgument(args, 1);
  if (json == nullptr) return nullptr;
  std::atomic<bool> stopped = false;
  Request request{.stopped = [&stopped] { return stopped.load(); }};
  for (Py_ssize_t i = 2; i < PyTuple_Size(args); ++i) {
    const Step* const step = StepArgument(args, i);
    if (step == nullptr) return nullptr;
    request.steps.push_back(*step);
  }
  absl::StatusOr<Answer> answer = absl::UnknownError("");
  std::string figures;
  const auto work = [&, name = std::string(name), json = std::string(json)] {
    answer = CallCaught(name, json, &request);
    if (answer.ok()) figures = Dumped(answer->findings ? *answer->findings : answer->figures);
  };
  if (RunWatched(work, &stopped)) return nullptr;
  if (!answer.ok()) {
    return Result(static_cast<int>(answer.status().code()), std::string(answer.status().message()),
                  "null", nullptr);
  }
  return Result(answer->findings ? -1 : 0, answer->text, figures, answer->step);
}

PyObject* ArrayOfPython(PyObject*, PyObject* args) {
  const Step* const step = StepArgument(args, 0);
  if (step == nullptr) return nullptr;
  const char* const name = TextArgument(args, 1);
  if (name == nullptr) return nullptr;
  const std::optional<Array> found = ArrayOf(**step, name);
  if (!found) Py_RETURN_NONE;
  auto* const object = New<ArrayObject>(array_type, *step);
  if (object != nullptr) object->array = *found;
  return reinterpret_cast<PyObject*>(object);
}

PyType_Slot step_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Free<StepObject>)},
                            {0, nullptr}};
PyType_Spec step_spec = {"stringline._core.Step", sizeof(StepObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, step_slots};

PyGetSetDef array_getters[] = {{"__array_interface__", ArrayInterface, nullptr, nullptr, nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot array_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Free<ArrayObject>)},
                             {Py_tp_getset, array_getters},
                             {0, nullptr}};
PyType_Spec array_spec = {"stringline._core.Array", sizeof(ArrayObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, array_slots};

PyMethodDef methods[] = {{"call", CallOfPython, METH_VARARGS, nullptr},
                         {"array", ArrayOfPython, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace stringline::python

PyMODINIT_FUNC PyInit__core() {
  using namespace stringline::python;
  step_type = PyType_FromSpec(&step_spec);
  array_type = PyType_FromSpec(&array_spec);
  if (step_type == nullptr || array_type == nullptr) return nullptr;
  PyObject* const module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  const bool complete =
      PyModule_AddStringConstant(module, "__version__", STRINGLINE_VERSION) == 0 &&
      PyModule_AddObjectRef(module, "Step", step_type) == 0 &&
      PyModule_AddObjectRef(module, "Array", array_type) == 0;
  if (complete) return module;
  Py_DECREF(module);
  return nullptr;
}
